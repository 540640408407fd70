//! Cuts long texts: the start and the end stay, and a line in between says how much is missing and how to see it.

use std::fmt::Write as _;

/// How a text is cut.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    /// Bytes of the result without the line about the gap.
    pub(crate) bytes: usize,
    /// Share of the bytes that comes from the start of the text.
    pub(crate) head_percent: usize,
}

impl Shape {
    /// For output of commands, where errors and results come last.
    pub(crate) const fn output(bytes: usize) -> Self {
        Self { bytes, head_percent: 40 }
    }

    /// Cuts a text. `hint` says how to see the rest.
    pub(crate) fn cut(self, text: &str, hint: &str) -> String {
        if text.len() <= self.bytes {
            return text.to_owned();
        }
        let head_end = line_end(text, self.bytes * self.head_percent / 100);
        let tail_start = line_start(text, text.len() - (self.bytes - head_end.min(self.bytes)));
        let tail_start = tail_start.max(head_end);
        let gap = &text[head_end..tail_start];
        if gap.is_empty() {
            return text.to_owned();
        }
        let mut shaped = String::with_capacity(self.bytes + 128);
        shaped.push_str(&text[..head_end]);
        if !shaped.is_empty() && !shaped.ends_with('\n') {
            shaped.push('\n');
        }
        let lines = gap.bytes().filter(|byte| *byte == b'\n').count();
        // Writing to a string does not fail.
        let _ = writeln!(shaped, "[… {} left out{hint} …]", amount(lines, gap.len()));
        shaped.push_str(&text[tail_start..]);
        shaped
    }
}

/// Describes a gap by lines and bytes.
fn amount(lines: usize, bytes: usize) -> String {
    match lines {
        0 | 1 => size(bytes as u64),
        lines => format!("{lines} lines, {}", size(bytes as u64)),
    }
}

/// A size for people.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{}.{} KiB", bytes / 1024, bytes % 1024 * 10 / 1024),
        _ => format!("{}.{} MiB", bytes / 1_048_576, bytes % 1_048_576 * 10 / 1_048_576),
    }
}

/// The end of the last whole line before `limit`, or `limit` itself if that line is very long.
fn line_end(text: &str, limit: usize) -> usize {
    let limit = text.floor_char_boundary(limit);
    match text[..limit].rfind('\n') {
        Some(newline) if newline + 1 >= limit / 2 => newline + 1,
        _ => limit,
    }
}

/// The start of the first whole line after `limit`, or `limit` itself if that line is very long.
fn line_start(text: &str, limit: usize) -> usize {
    let limit = text.ceil_char_boundary(limit);
    let room = text.len() - limit;
    match text[limit..].find('\n') {
        Some(newline) if newline < room / 2 => limit + newline + 1,
        _ => limit,
    }
}

/// Terminal text as a person would see it: without colours and control characters. Of a line that carriage returns overwrote, only the
/// last version stays.
pub(crate) fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (body, newline) = line.strip_suffix('\n').map_or((line, ""), |body| (body, "\n"));
        let body = body.strip_suffix('\r').unwrap_or(body);
        let last = body.rsplit('\r').find(|part| !part.is_empty()).unwrap_or("");
        push_visible(last, &mut shown);
        shown.push_str(newline);
    }
    shown
}

fn push_visible(text: &str, shown: &mut String) {
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\u{1b}' => skip_escape(&mut letters),
            '\u{8}' => drop(shown.pop().filter(|last| *last != '\n')),
            '\t' => shown.push('\t'),
            letter if letter.is_control() => {}
            letter => shown.push(letter),
        }
    }
}

/// CSI sequences end with a letter, OSC strings with BEL or ST, all others after one character.
fn skip_escape(letters: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match letters.next() {
        Some('[') => while letters.next().is_some_and(|letter| !('@'..='~').contains(&letter)) {},
        Some(']') => {
            while let Some(letter) = letters.next() {
                if letter == '\u{7}' || (letter == '\u{1b}' && letters.next_if_eq(&'\\').is_some()) {
                    return;
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_text_stays_and_a_long_one_keeps_both_ends_on_whole_lines() {
        let shape = Shape::output(1000);
        assert_eq!(shape.cut("short\n", ""), "short\n");
        let long: String = (0..1000).map(|line| format!("line {line}\n")).collect();
        let cut = shape.cut(&long, "; recall 7 shows all");
        assert!(cut.starts_with("line 0\n") && cut.ends_with("line 999\n"), "{cut}");
        assert!(cut.contains("lines, ") && cut.contains("left out; recall 7 shows all"), "{cut}");
        assert!(cut.len() < 1200);
        assert!(cut.lines().all(|line| line.starts_with("line ") || line.starts_with("[…")), "{cut}");
    }

    #[test]
    fn one_endless_line_is_cut_between_letters() {
        let cut = Shape::output(100).cut(&"é".repeat(500), "");
        assert!(cut.starts_with('é') && cut.ends_with('é') && cut.len() < 200, "{cut}");
    }

    #[test]
    fn what_is_left_out_and_what_stays_is_everything() {
        let long: String = (0..300).map(|line| format!("{line} {}\n", "x".repeat(line % 70))).collect();
        for bytes in [10, 64, 100, 1000, 5000] {
            let cut = Shape::output(bytes).cut(&long, "");
            let (head, rest) = cut.split_once("[… ").expect("a gap");
            let tail = rest.split_once("…]\n").expect("the gap's end").1;
            assert!(long.starts_with(head.trim_end_matches('\n')) && long.ends_with(tail), "{bytes}: {cut}");
            assert!(head.len() + tail.len() <= bytes + 1, "{bytes}");
        }
    }

    #[test]
    fn colours_and_progress_bars_are_not_shown() {
        assert_eq!(plain("\u{1b}[1;31mred\u{1b}[0m\r\n"), "red\n");
        assert_eq!(plain("10 %\r50 %\r100 %\r\ndone"), "100 %\ndone");
        assert_eq!(plain("\u{1b}]0;title\u{7}ok \u{1b}]8;;x\u{1b}\\link"), "ok link");
        assert_eq!(plain("abc\u{8}\u{8}d\u{0}"), "ad");
        assert_eq!(plain("tab\tstays\n"), "tab\tstays\n");
    }
}
