//! Sentences and notes in comments.

/// Longest sentence that is kept, in characters.
const MAX_SENTENCE: usize = 160;
/// Longest note that is kept, in characters.
const MAX_MARK: usize = 120;
/// Notes kept of one file.
const MAX_MARKS: usize = 50;

/// The first sentence of a comment without its markers, or `None` if it says nothing.
pub(crate) fn first_sentence(comment: &str) -> Option<String> {
    let mut words = String::new();
    for line in comment.lines() {
        let line = line.trim().trim_start_matches(['/', '*', '#', '!', '"', '\'', ';', '-', '=', '<']).trim();
        let line = line.trim_end_matches("*/").trim_end_matches("\"\"\"").trim();
        if line.is_empty() {
            if words.is_empty() { continue } else { break }
        }
        if line.starts_with('@')
            || line.starts_with("SPDX")
            || line.starts_with("[")
            || line.starts_with("eslint")
        {
            if words.is_empty() { continue } else { break }
        }
        if !words.is_empty() {
            words.push(' ');
        }
        words.push_str(line);
        if let Some(end) = sentence_end(&words) {
            words.truncate(end);
            break;
        }
        if words.len() > MAX_SENTENCE * 2 {
            break;
        }
    }
    let lower = words.to_lowercase();
    let legal = [
        "copyright",
        "license",
        "licence",
        "all rights",
        "(c) ",
        "-*-",
        "coding:",
        "coding=",
        "pylint",
        "type:",
        "noqa",
    ];
    if words.chars().filter(|letter| letter.is_alphabetic()).count() < 4
        || legal.iter().any(|word| lower.contains(word))
    {
        return None;
    }
    Some(cut(&words, MAX_SENTENCE))
}

/// Byte after the first full stop that ends a sentence.
fn sentence_end(text: &str) -> Option<usize> {
    let ends = text.match_indices(". ").map(|(at, _)| at).chain(text.ends_with('.').then(|| text.len() - 1));
    let abbreviation =
        |at: usize| ["e.g", "i.e", "etc", "vs", "cf"].iter().any(|word| text[..at].ends_with(word));
    ends.filter(|at| !abbreviation(*at)).map(|at| at + 1).next()
}

/// Cuts a text to a number of characters, with an ellipsis.
pub(crate) fn cut(text: &str, characters: usize) -> String {
    let clean: String = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    if clean.chars().count() <= characters {
        return clean;
    }
    clean.chars().take(characters.saturating_sub(1)).chain(['…']).collect()
}

/// Notes that something is unfinished, with their lines.
pub(crate) fn marks(source: &[u8]) -> Vec<(u32, String)> {
    const SIGNS: &[&str] = &["TODO", "FIXME", "XXX", "HACK"];
    const CODE: &[&str] = &["raise NotImplementedError", "todo!(", "unimplemented!("];
    let mut found = Vec::new();
    for (number, line) in source.split(|byte| *byte == b'\n').enumerate() {
        if line.len() > 1000 || found.len() >= MAX_MARKS {
            continue;
        }
        let line = String::from_utf8_lossy(line);
        let comment = ["//", "#", "/*", "* ", "<!--", "-- "].iter().filter_map(|mark| line.find(mark)).min();
        let noted = comment.is_some_and(|at| SIGNS.iter().any(|sign| has_word(&line[at..], sign)));
        if noted || CODE.iter().any(|code| line.trim_start().starts_with(code)) {
            found.push((number as u32 + 1, cut(line.trim(), MAX_MARK)));
        }
    }
    found
}

fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before =
            text[..at].chars().next_back().is_none_or(|letter| !letter.is_alphanumeric() && letter != '_');
        let after = text[at + word.len()..]
            .chars()
            .next()
            .is_none_or(|letter| !letter.is_alphanumeric() && letter != '_');
        before && after
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_end_at_full_stops_and_blank_lines() {
        assert_eq!(first_sentence("// Reads a file.  And more."), Some("Reads a file.".to_owned()));
        assert_eq!(
            first_sentence("/**\n * Sums, e.g. 1 + 1\n * of two.\n *\n * @param a\n */"),
            Some("Sums, e.g. 1 + 1 of two.".to_owned())
        );
        assert_eq!(first_sentence("# Copyright 2020 Somebody."), None);
        assert_eq!(first_sentence("\n\n---\n"), None);
    }

    #[test]
    fn notes_are_found_in_comments_only() {
        let source = b"x = 'TODO'\n# TODO: finish\nTODOS = 1 # a TODOs\n    raise NotImplementedError\n";
        let lines: Vec<u32> = marks(source).into_iter().map(|(line, _)| line).collect();
        assert_eq!(lines, [2, 4]);
    }
}
