//! The widths of a table's columns, so that no line is longer than the terminal is wide. Pure.

/// A column is not made narrower than this: less says nothing.
const NARROWEST: usize = 8;

/// The width of each column.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TableLayout(Vec<usize>);

impl TableLayout {
    /// Spaces between two columns.
    pub(crate) const GAP: usize = 2;

    /// Makes columns as wide as their widest cell. If that is more than the terminal has, the widest columns give way first.
    pub(crate) fn of<R>(rows: impl Iterator<Item = R>, columns: Option<usize>) -> Self
    where
        R: Iterator<Item = usize>,
    {
        let mut widths: Vec<usize> = Vec::new();
        for row in rows {
            for (column, width) in row.enumerate() {
                match widths.get_mut(column) {
                    Some(widest) => *widest = width.max(*widest),
                    None => widths.push(width),
                }
            }
        }
        let gaps = Self::GAP * widths.len().saturating_sub(1);
        let room = columns.map(|columns| columns.saturating_sub(gaps));
        while room.is_some_and(|room| widths.iter().sum::<usize>() > room) {
            let Some(widest) = widths.iter_mut().max().filter(|width| **width > NARROWEST) else { break };
            *widest -= 1;
        }
        Self(widths)
    }

    /// Returns the width of a column.
    pub(crate) fn width(&self, column: usize) -> usize {
        self.0.get(column).copied().unwrap_or(0)
    }
}

/// Returns the columns that a text takes on a terminal.
pub(crate) fn width_of(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

/// Returns the text, or the beginning of it with an ellipsis, so that it takes at most this many columns.
pub(crate) fn fitted(text: &str, width: usize) -> String {
    if width_of(text) <= width {
        return text.to_owned();
    }
    let mut left = width.saturating_sub(1);
    let kept = text.chars().take_while(|letter| {
        let fits = columns_of(*letter) <= left;
        left = left.saturating_sub(columns_of(*letter));
        fits
    });
    let kept: String = kept.collect();
    format!("{}…", kept.trim_end())
}

/// Breaks a text into lines of at most this many columns, between words. A longer word, such as a path, has a line of its own
/// and stays whole, so that it can be copied.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if width_of(line) + 1 + width_of(word) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Terminals show the letters of East Asia and most pictures twice as wide (UAX 11), and marks above others without a width.
fn columns_of(letter: char) -> usize {
    match letter {
        '\u{300}'..='\u{36f}' | '\u{200b}'..='\u{200f}' | '\u{fe00}'..='\u{fe0f}' => 0,
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{1f300}'..='\u{1faff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn widths(rows: &[&[usize]], columns: Option<usize>) -> Vec<usize> {
        TableLayout::of(rows.iter().map(|row| row.iter().copied()), columns).0
    }

    #[test]
    fn the_widest_column_gives_way_and_none_becomes_useless() {
        assert_eq!(widths(&[&[3, 5], &[8, 100]], None), [8, 100]);
        assert_eq!(widths(&[&[8, 100]], Some(80)), [8, 70]);
        assert_eq!(widths(&[&[8, 60, 50]], Some(80)), [8, 34, 34]);
        assert_eq!(widths(&[&[30, 30, 30]], Some(10)), [8, 8, 8]);
    }

    #[test]
    fn a_text_is_broken_between_words_and_a_long_word_stays_whole() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("a /long/path/of/it b", 6), ["a", "/long/path/of/it", "b"]);
        assert_eq!(wrapped("日本 日本", 5), ["日本", "日本"]);
        assert_eq!(wrapped("", 5), [""]);
    }

    #[test]
    fn a_text_is_cut_between_letters_and_by_the_columns_that_it_takes() {
        assert_eq!(fitted("short", 8), "short");
        assert_eq!(fitted("äöüäöüäöü", 4), "äöü…");
        assert_eq!(fitted("日本語", 6), "日本語");
        assert_eq!(fitted("日本語", 5), "日本…");
        assert_eq!(fitted("one two", 5), "one…");
        assert_eq!((width_of("e\u{301}"), width_of("日")), (1, 2));
    }
}
