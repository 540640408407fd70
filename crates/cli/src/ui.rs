//! Output for people: colour, tables, questions and errors. Progress is in `progress`.
//!
//! Jobs choose names, titles, reasons and parts of errors, so everything that is printed here is cleaned here: no caller has
//! to remember it. Output of jobs, which may be any bytes, is in `job/output`.
//!
//! Data goes to standard output, everything else to standard error. Nothing depends on colour: it is off when the
//! stream is no terminal, `NO_COLOR` is set or `TERM` is `dumb`.

use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

use serde::Serialize;

use crate::progress::ProgressLine;

/// Output settings of the command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ui {
    colour_out: bool,
    colour_err: bool,
    terminal_out: bool,
    interactive: bool,
}

/// A meaning of text, shown as a colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Strong,
    /// Grey, for less important text.
    Faint,
    /// Green, for success.
    Good,
    /// Yellow, for a warning.
    Warning,
    /// Red, for a failure.
    Bad,
}

impl Tone {
    fn code(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Strong => "1",
            Self::Faint => "2",
            Self::Good => "32",
            Self::Warning => "33",
            Self::Bad => "31",
        }
    }
}

/// A cell of a table with its tone.
#[derive(Debug, Clone)]
pub(crate) struct TableCell(pub(crate) String, pub(crate) Tone);

impl TableCell {
    /// Returns a cell without a tone.
    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self(text.into(), Tone::Plain)
    }
}

impl Ui {
    /// Inspects the standard streams. `colourless` is true if the environment asks for no colour.
    pub(crate) fn detect(colourless: bool) -> Self {
        let (out, err) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        Self {
            colour_out: out && !colourless,
            colour_err: err && !colourless,
            terminal_out: out,
            interactive: err && io::stdin().is_terminal(),
        }
    }

    /// True if a person can be asked.
    pub(crate) fn is_interactive(&self) -> bool {
        self.interactive
    }

    /// Prints one line of data to standard output.
    pub(crate) fn line(&self, text: &str) -> io::Result<()> {
        put_line(&clean_lines(text))
    }

    /// Prints data as JSON to standard output.
    pub(crate) fn json(&self, value: &impl Serialize) -> io::Result<()> {
        put_line(&escape_json(&serde_json::to_string_pretty(value).map_err(io::Error::other)?))
    }

    /// Prints lines of JSON to standard output: as they are, because their bytes are signed, but not to a terminal.
    pub(crate) fn json_lines(&self, text: &str) -> io::Result<()> {
        if self.terminal_out { put_line(&escape_json(text)) } else { put_line(text) }
    }

    /// Prints a table to standard output. The last column is never padded.
    pub(crate) fn table(&self, head: &[&str], rows: &[Vec<TableCell>]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(render_table(head, rows, self.colour_out).as_bytes())?;
        out.flush()
    }

    /// Prints a sentence to standard error.
    pub(crate) fn note(&self, text: &str) {
        self.tell(text, Tone::Plain);
    }

    /// Prints a less important sentence to standard error.
    pub(crate) fn faint(&self, text: &str) {
        self.tell(text, Tone::Faint);
    }

    /// Prints a sentence with a tone to standard error.
    pub(crate) fn toned(&self, text: &str, tone: Tone) {
        self.tell(text, tone);
    }

    /// Prints text to standard error without a line break.
    pub(crate) fn piece(&self, text: &str) {
        put(&clean_lines(text));
    }

    /// Prints a warning to standard error.
    pub(crate) fn warn(&self, text: &str) {
        let label = paint("warning:", Tone::Warning, self.colour_err);
        put(&format!("{label} {}\n", clean_lines(text)));
    }

    /// Prints an error with its causes, and a hint.
    pub(crate) fn error(&self, error: &dyn Error, hint: Option<&str>) {
        put(&render_error(error, hint, self.colour_err));
    }

    /// Returns a progress bar on a terminal, plain lines elsewhere.
    pub(crate) fn progress(&self, what: &str) -> ProgressLine {
        ProgressLine::new(what, io::stderr().is_terminal())
    }

    /// Asks a question. Returns the first letter of the answer in lower case; `None` at the end of input.
    pub(crate) fn ask(&self, question: &str) -> Option<char> {
        put(&format!("{} ", clean_lines(question)));
        let mut answer = String::new();
        io::stdin().read_line(&mut answer).ok()?;
        answer.trim().chars().next().map(|letter| letter.to_ascii_lowercase())
    }

    fn tell(&self, text: &str, tone: Tone) {
        put(&format!("{}\n", paint(&clean_lines(text), tone, self.colour_err)));
    }
}

fn put(text: &str) {
    // Nobody is left to tell that standard error is gone.
    drop(io::stderr().lock().write_all(text.as_bytes()));
}

fn put_line(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.write_all(b"\n")?;
    out.flush()
}

/// True for a character that a terminal obeys instead of showing it: control characters, and those that turn the direction of
/// the text after them (UAX 9), which show it in another order than it has.
pub(crate) fn is_unsafe(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Makes foreign text safe for one line of a terminal: replaces characters that a terminal obeys.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(|letter| if is_unsafe(letter) { ' ' } else { letter }).collect()
}

/// Makes foreign text safe for a terminal: replaces characters that a terminal obeys, except line breaks.
fn clean_lines(text: &str) -> String {
    text.split('\n').map(clean).collect::<Vec<_>>().join("\n")
}

/// Escapes the characters that a terminal obeys and JSON does not escape. The document stays the same.
fn escape_json(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_unsafe(letter) && letter != '\n' {
            // Writing to a string can't fail. All of these characters have four hexadecimal digits.
            let _ = write!(escaped, "\\u{:04x}", u32::from(letter));
        } else {
            escaped.push(letter);
        }
    }
    escaped
}

/// Returns a number with its noun in singular or plural.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

fn paint(text: &str, tone: Tone, colour: bool) -> String {
    if colour && tone != Tone::Plain {
        format!("\u{1b}[{}m{text}\u{1b}[0m", tone.code())
    } else {
        text.to_owned()
    }
}

fn render_table(head: &[&str], rows: &[Vec<TableCell>], colour: bool) -> String {
    let mut lines =
        vec![head.iter().map(|text| TableCell((*text).to_owned(), Tone::Strong)).collect::<Vec<_>>()];
    lines.extend(rows.iter().map(|row| row.iter().map(|cell| TableCell(clean(&cell.0), cell.1)).collect()));
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        lines.iter().filter_map(|row| row.get(column)).map(|cell| cell.0.chars().count()).max()
    };
    let widths: Vec<_> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in &lines {
        for (column, cell) in row.iter().enumerate() {
            text.push_str(&paint(&cell.0, cell.1, colour));
            if column + 1 < row.len() {
                text.push_str(&" ".repeat(widths[column].saturating_sub(cell.0.chars().count()) + 2));
            }
        }
        text.push('\n');
    }
    text
}

fn render_error(error: &dyn Error, hint: Option<&str>, colour: bool) -> String {
    let mut text = format!("{} {}\n", paint("error:", Tone::Bad, colour), clean_lines(&error.to_string()));
    let mut source = error.source();
    while let Some(cause) = source {
        // Writing to a string can't fail.
        let _ = writeln!(text, "  caused by: {}", clean_lines(&cause.to_string()));
        source = cause.source();
    }
    if let Some(hint) = hint {
        let _ = writeln!(text, "  {} {}", paint("hint:", Tone::Good, colour), clean_lines(hint));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_shows_its_chain_once_and_a_hint() {
        #[derive(Debug, thiserror::Error)]
        #[error("write `/x/out.zip`")]
        struct WriteError(#[source] io::Error);
        let error = WriteError(io::Error::new(io::ErrorKind::StorageFull, "no space left"));
        assert_eq!(
            render_error(&error, Some("make room"), false),
            "error: write `/x/out.zip`\n  caused by: no space left\n  hint: make room\n"
        );
    }

    #[test]
    fn columns_line_up_and_colour_does_not_count() {
        let rows = vec![
            vec![TableCell("a".into(), Tone::Good), TableCell::plain("one")],
            vec![TableCell("bbb".into(), Tone::Bad), TableCell::plain("two")],
        ];
        assert_eq!(render_table(&["ID", "WHAT"], &rows, false), "ID   WHAT\na    one\nbbb  two\n");
        assert!(render_table(&["ID", "WHAT"], &rows, true).contains("\u{1b}[32ma\u{1b}[0m    one"));
    }

    #[test]
    fn foreign_text_cant_steer_the_terminal() {
        let rows = vec![vec![TableCell::plain("a\u{1b}[2Jb\nc")]];
        assert_eq!(render_table(&["N"], &rows, false), "N\na [2Jb c\n");
        let error = io::Error::other("a\u{1b}]0;title\u{7}b\u{9b}2J");
        assert_eq!(render_error(&error, Some("\u{1b}c"), false), "error: a ]0;title b 2J\n  hint:  c\n");
        assert_eq!(clean_lines("a\r\u{202e}b\n\u{7f}"), "a  b\n ");
    }

    #[test]
    fn p5_json_stays_the_same_and_has_no_control_characters() {
        let value = serde_json::json!({ "name": "a\u{1b}[2J\u{9b}2J\u{7f}\u{202e}ü\n" });
        let shown = escape_json(&serde_json::to_string_pretty(&value).unwrap());
        assert!(!shown.chars().any(|letter| is_unsafe(letter) && letter != '\n'), "{shown:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
    }
}
