//! The output of jobs on this machine's streams. A job chooses every byte of it, and a terminal obeys escape sequences: they
//! move the cursor over other lines, change the window's title, write the clipboard or make the terminal type. So a
//! terminal gets clean text, unless the user asks for the bytes; a file or pipe gets the bytes as they are.

use std::io::{self, IsTerminal, Write};

use sandyard_api::OutputText;

use crate::ui::is_unsafe;

/// Shown in place of a character that a terminal would obey, and of bytes that are no text.
const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;
const ESCAPE: char = '\u{1b}';
const BELL: char = '\u{7}';

/// Treatment of a job's output on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TerminalText {
    /// Escape sequences and control characters are removed.
    Clean,
    /// Every byte is passed on.
    Raw,
}

impl TerminalText {
    /// Returns the treatment for the flag `--raw`.
    pub(crate) fn from_flag(raw: bool) -> Self {
        if raw { Self::Raw } else { Self::Clean }
    }
}

/// Writes the output of one job to standard output and standard error.
pub(crate) struct JobOutput {
    out: Option<TextCleaner>,
    err: Option<TextCleaner>,
}

impl JobOutput {
    pub(crate) fn new(text: TerminalText) -> Self {
        let cleaner = |terminal: bool| (terminal && text == TerminalText::Clean).then(TextCleaner::default);
        Self { out: cleaner(io::stdout().is_terminal()), err: cleaner(io::stderr().is_terminal()) }
    }

    pub(crate) fn stdout(&mut self, bytes: &[u8]) -> io::Result<()> {
        write(io::stdout().lock(), self.out.as_mut(), bytes)
    }

    pub(crate) fn stderr(&mut self, bytes: &[u8]) -> io::Result<()> {
        write(io::stderr().lock(), self.err.as_mut(), bytes)
    }
}

/// Returns the exact bytes if the event has them, else the text.
pub(crate) fn output_bytes(output: &OutputText) -> Vec<u8> {
    let exact = output.base64.as_ref().and_then(|_| output.bytes());
    exact.unwrap_or_else(|| output.text.clone().into_bytes())
}

fn write(mut stream: impl Write, cleaner: Option<&mut TextCleaner>, bytes: &[u8]) -> io::Result<()> {
    match cleaner {
        Some(cleaner) => stream.write_all(cleaner.clean(bytes).as_bytes())?,
        None => stream.write_all(bytes)?,
    }
    stream.flush()
}

/// Turns the bytes of a job into text that no terminal obeys. Keeps its state between two pieces, because a character or a
/// sequence may be split anywhere.
#[derive(Debug, Default)]
struct TextCleaner {
    /// The beginning of a character whose other bytes have not arrived: at most 3 bytes.
    begun: Vec<u8>,
    state: CleanerState,
    /// True after a carriage return that is not written yet: before a line feed it is part of the line's end.
    returned: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum CleanerState {
    #[default]
    Text,
    /// After an escape character.
    Escape,
    /// In a control sequence: ends with a letter or one of `@[\]^_`{|}~`.
    Control,
    /// In a message to the terminal, such as a title. Ends with a bell or `ESC \`; also with the line, so that no job can
    /// hide what follows.
    Message,
}

impl TextCleaner {
    fn clean(&mut self, bytes: &[u8]) -> String {
        let mut all = std::mem::take(&mut self.begun);
        all.extend_from_slice(bytes);
        let mut cleaned = String::with_capacity(all.len());
        let mut rest = all.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => {
                    text.chars().for_each(|letter| self.take(letter, &mut cleaned));
                    return cleaned;
                }
                Err(error) => {
                    let (text, after) = rest.split_at(error.valid_up_to());
                    String::from_utf8_lossy(text).chars().for_each(|letter| self.take(letter, &mut cleaned));
                    let Some(length) = error.error_len() else {
                        self.begun = after.to_vec();
                        return cleaned;
                    };
                    self.take(REPLACEMENT, &mut cleaned);
                    rest = &after[length..];
                }
            }
        }
    }

    fn take(&mut self, letter: char, cleaned: &mut String) {
        self.state = match (self.state, letter) {
            (_, ESCAPE) => CleanerState::Escape,
            (CleanerState::Escape, '[') => CleanerState::Control,
            (CleanerState::Escape, ']' | 'P' | 'X' | '^' | '_') => CleanerState::Message,
            // Letters between an escape and its end, as in `ESC ( B`.
            (CleanerState::Escape, ' '..='/') => CleanerState::Escape,
            (CleanerState::Escape, '0'..='~') => CleanerState::Text,
            (CleanerState::Control, ' '..='?') => CleanerState::Control,
            (CleanerState::Control, '@'..='~') => CleanerState::Text,
            (CleanerState::Message, BELL) => CleanerState::Text,
            (CleanerState::Message, letter) if letter != '\n' => CleanerState::Message,
            // Text, or a sequence that is broken off here.
            _ => return self.show(letter, cleaned),
        };
    }

    fn show(&mut self, letter: char, cleaned: &mut String) {
        self.state = CleanerState::Text;
        // A carriage return alone would let the job write over the line, so the text after it begins a new one.
        if std::mem::take(&mut self.returned) && letter != '\n' {
            cleaned.push('\n');
        }
        match letter {
            '\r' => self.returned = true,
            '\n' | '\t' => cleaned.push(letter),
            letter if is_unsafe(letter) => cleaned.push(REPLACEMENT),
            letter => cleaned.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleaned(text: &[u8]) -> String {
        let whole = TextCleaner::default().clean(text);
        // Split anywhere, the result is the same.
        let mut cleaner = TextCleaner::default();
        let pieces: String = text.iter().map(|byte| cleaner.clean(&[*byte])).collect();
        assert_eq!(whole, pieces, "{text:?}");
        whole
    }

    #[test]
    fn p5_a_terminal_gets_text_and_obeys_nothing() {
        for (sent, shown) in [
            ("plain\tGrüße 日本\n", "plain\tGrüße 日本\n"),
            ("\u{1b}[31mred\u{1b}[0m", "red"),
            ("\u{1b}[2J\u{1b}[1;1Hgone", "gone"),
            ("a\u{1b}]0;title\u{7}b", "ab"),
            ("a\u{1b}]52;c;cm0gLXJm\u{1b}\\b", "ab"),
            ("a\u{1b}P$qm\u{1b}\\b\u{1b}_x\u{1b}\\c\u{1b}^y\u{1b}\\d\u{1b}Xz\u{1b}\\e", "abcde"),
            ("a\u{1b}(Bb\u{1b}cc\u{1b}7d\u{1b}#8e", "abcde"),
            ("hidden\u{1b}]0;never ends\nnext line", "hidden\nnext line"),
            ("a\u{1b}[12\nb", "a\nb"),
            ("a\u{1b}[1\u{1b}[2Jb", "ab"),
            ("a\u{9b}2Jb\u{9d}0;x\u{7}", "a\u{fffd}2Jb\u{fffd}0;x\u{fffd}"),
            ("paid\r\u{1b}[Knot paid", "paid\nnot paid"),
            ("one\r\ntwo\r", "one\ntwo"),
            ("ab\u{8}\u{8}xx\u{7f}\u{0}\u{e}", "ab\u{fffd}\u{fffd}xx\u{fffd}\u{fffd}\u{fffd}"),
            ("\u{202e}evil\u{2066}", "\u{fffd}evil\u{fffd}"),
        ] {
            assert_eq!(cleaned(sent.as_bytes()), shown, "{sent:?}");
        }
        assert_eq!(cleaned(b"a\xffb\x9b2J\xc3("), "a\u{fffd}b\u{fffd}2J\u{fffd}(");
    }

    #[test]
    fn p5_no_beginning_of_anything_reaches_a_terminal() {
        let mut bytes = Vec::new();
        for first in 0..=255_u8 {
            for second in 0..=255_u8 {
                bytes.extend([b'a', first, second]);
            }
        }
        let shown = TextCleaner::default().clean(&bytes);
        assert!(!shown.chars().any(|letter| is_unsafe(letter) && !matches!(letter, '\n' | '\t')));
    }

    #[test]
    fn bytes_that_are_no_text_come_out_exactly_in_a_pipe() {
        let mut out = Vec::new();
        write(&mut out, None, &output_bytes(&OutputText::new(0, b"a\xffb"))).unwrap();
        write(&mut out, None, &output_bytes(&OutputText::new(3, "\u{1b}[31mü".as_bytes()))).unwrap();
        assert_eq!(out, b"a\xffb\x1b[31m\xc3\xbc");
    }
}
