//! The parts of an identifier.

/// Calls `visit` with each part of a run: `parseHTTPReply_v2` gives `parse`, `HTTP`, `Reply`, `v` and `2`.
pub fn parts<'t>(run: &'t str, mut visit: impl FnMut(&'t str)) {
    let mut start = 0;
    let mut characters = run.char_indices().peekable();
    let mut before: Option<char> = None;
    while let Some((at, character)) = characters.next() {
        if character == '_' {
            emit(run, start, at, &mut visit);
            start = at + 1;
            before = None;
            continue;
        }
        let next = characters.peek().map(|&(_, next)| next);
        if before.is_some_and(|before| is_border(before, character, next)) {
            emit(run, start, at, &mut visit);
            start = at;
        }
        before = Some(character);
    }
    emit(run, start, run.len(), &mut visit);
}

fn emit<'t>(run: &'t str, start: usize, end: usize, visit: &mut impl FnMut(&'t str)) {
    if start < end {
        visit(&run[start..end]);
    }
}

/// A border lies between small and capital letters, before the last capital of a row (`HTTPServer`), and between letters and digits.
fn is_border(before: char, character: char, next: Option<char>) -> bool {
    if before.is_numeric() != character.is_numeric() {
        return true;
    }
    character.is_uppercase()
        && (before.is_lowercase() || (before.is_uppercase() && next.is_some_and(char::is_lowercase)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(run: &str) -> Vec<&str> {
        let mut found = Vec::new();
        parts(run, |part| found.push(part));
        found
    }

    #[test]
    fn identifiers_are_split_at_their_borders() {
        assert_eq!(found("parseHTTPReply_v2"), ["parse", "HTTP", "Reply", "v", "2"]);
        assert_eq!(found("__init__"), ["init"]);
        assert_eq!(found("utf8"), ["utf", "8"]);
        assert_eq!(found("MAX_SIZE"), ["MAX", "SIZE"]);
        assert_eq!(found("plain"), ["plain"]);
        assert_eq!(found("_"), Vec::<&str>::new());
    }
}
