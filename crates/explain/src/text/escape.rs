//! Names of strangers inside Markdown.

use crate::diagram::line_link;

/// A code span that nothing in the text can end: the fence is longer than any run of backticks inside.
pub fn code_span(text: &str) -> String {
    let clean: String = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    let longest = clean.split(|letter| letter != '`').map(str::len).max().unwrap_or_default();
    if longest == 0 {
        return format!("`{}`", if clean.trim().is_empty() { "?" } else { &clean });
    }
    let fence = "`".repeat(longest + 1);
    format!("{fence} {clean} {fence}")
}

/// Plain words: letters that mean something in Markdown or HTML are escaped.
pub(crate) fn words(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        match letter {
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '<' | '>' | '#' | '|' | '!' | '~' => {
                out.push('\\');
                out.push(letter);
            }
            '&' => out.push_str("&amp;"),
            letter if letter.is_control() => out.push(' '),
            letter => out.push(letter),
        }
    }
    out
}

/// Plain words in which names stand in backticks, as people and models write them.
pub(crate) fn words_with_names(text: &str) -> String {
    let pieces: Vec<&str> = text.split('`').collect();
    // A backtick without another one is only a letter.
    if pieces.len().is_multiple_of(2) {
        return words(text);
    }
    let written = |(at, piece): (usize, &&str)| match (at % 2, piece.is_empty()) {
        (_, true) => String::new(),
        (0, false) => words(piece),
        _ => code_span(piece),
    };
    pieces.iter().enumerate().map(written).collect()
}

/// A link to a line of a file, shown as code.
pub(crate) fn place(path: &str, line: u32) -> String {
    format!("[{}]({})", code_span(&format!("{path}:{line}")).replace('|', "¦"), line_link(path, line))
}

/// A code span for a cell of a table, where a bar would end the cell.
pub(super) fn cell_code(text: &str) -> String {
    code_span(&text.replace('|', "¦"))
}

/// Puts a prefix before every link to a line of a file, for a page that lies outside of the project.
pub fn rebase_links(markdown: &str, prefix: &str) -> String {
    let mut out = String::with_capacity(markdown.len());
    let mut rest = markdown;
    while let Some(at) = rest.find("](") {
        let (before, after) = rest.split_at(at + 2);
        out.push_str(before);
        let target = after.split([')', '\n', ' ']).next().unwrap_or_default();
        if target.contains("#L") {
            out.push_str(prefix);
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ends_a_span_or_begins_markup() {
        assert_eq!(code_span("a"), "`a`");
        assert_eq!(code_span("a``b"), "``` a``b ```");
        assert_eq!(code_span("a\n\nb"), "`a  b`");
        assert_eq!(words("<script> *x* [a](b)"), "\\<script\\> \\*x\\* \\[a\\](b)");
        assert_eq!(rebase_links("[a](b#L1) ![c](d.svg)", "../"), "[a](../b#L1) ![c](d.svg)");
        assert_eq!(words_with_names("it calls `a_b()` *now*"), "it calls `a_b()` \\*now\\*");
        assert_eq!(words_with_names("one ` only"), "one \\` only");
        assert_eq!(place("a b/(c).py", 3), "[`a b/(c).py:3`](a%20b/%28c%29.py#L3)");
    }
}
