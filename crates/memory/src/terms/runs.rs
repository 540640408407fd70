//! Runs of letters, digits and underscores: words of prose and identifiers of code.

/// Calls `visit` with each run. Characters of scripts without spaces between words are runs of their own.
pub fn runs<'t>(text: &'t str, mut visit: impl FnMut(&'t str)) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        // A table of 256 entries decides for ASCII, which is nearly everything; only other bytes are decoded.
        if !IS_WORD_BYTE[usize::from(bytes[at])] {
            at += 1;
            continue;
        }
        let start = at;
        let mut ascii = true;
        while at < bytes.len() && IS_WORD_BYTE[usize::from(bytes[at])] {
            ascii &= bytes[at] < 0x80;
            at += 1;
        }
        // Both ends are at ASCII bytes or at the ends of the text, so they are character borders.
        let run = &text[start..at];
        if ascii { visit(run) } else { split_run(run, &mut visit) }
    }
}

/// Splits a run with characters beyond ASCII at those that are no letters, and at ideographs.
fn split_run<'t>(run: &'t str, visit: &mut impl FnMut(&'t str)) {
    let mut start = 0;
    for (at, character) in run.char_indices() {
        let end = at + character.len_utf8();
        let alone = is_ideograph(character);
        if alone || !(character.is_alphanumeric() || character == '_') {
            if start < at {
                visit(&run[start..at]);
            }
            if alone {
                visit(&run[at..end]);
            }
            start = end;
        }
    }
    if start < run.len() {
        visit(&run[start..]);
    }
}

/// Han, Hiragana, Katakana: written without spaces.
fn is_ideograph(character: char) -> bool {
    matches!(character, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{20000}'..='\u{2ffff}')
}

/// Letters, digits, the underscore, and every byte of a character beyond ASCII.
static IS_WORD_BYTE: [bool; 256] = word_bytes();

const fn word_bytes() -> [bool; 256] {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = byte >= 0x80 || byte as u8 == b'_' || (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(text: &str) -> Vec<&str> {
        let mut found = Vec::new();
        runs(text, |run| found.push(run));
        found
    }

    #[test]
    fn punctuation_separates() {
        assert_eq!(found("a.b(c_d, 12)—“quoted”…"), ["a", "b", "c_d", "12", "quoted"]);
    }

    proptest! {
        #[test]
        fn runs_lie_in_the_text_in_order(text in ".{0,200}") {
            let mut end = 0;
            for run in found(&text) {
                let start = run.as_ptr() as usize - text.as_ptr() as usize;
                prop_assert!(start >= end && !run.is_empty());
                end = start + run.len();
            }
        }
    }
}
