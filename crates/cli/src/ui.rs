//! Output for people: colour, tables, questions and errors. Progress is in `progress`.
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
            interactive: err && io::stdin().is_terminal(),
        }
    }

    /// True if a person can be asked.
    pub(crate) fn is_interactive(&self) -> bool {
        self.interactive
    }

    /// Prints one line of data to standard output.
    pub(crate) fn line(&self, text: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.write_all(b"\n")?;
        out.flush()
    }

    /// Prints data as JSON to standard output.
    pub(crate) fn json(&self, value: &impl Serialize) -> io::Result<()> {
        self.line(&serde_json::to_string_pretty(value).map_err(io::Error::other)?)
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
        put(text);
    }

    /// Prints a warning to standard error.
    pub(crate) fn warn(&self, text: &str) {
        let label = paint("warning:", Tone::Warning, self.colour_err);
        put(&format!("{label} {text}\n"));
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
        put(&format!("{question} "));
        let mut answer = String::new();
        io::stdin().read_line(&mut answer).ok()?;
        answer.trim().chars().next().map(|letter| letter.to_ascii_lowercase())
    }

    fn tell(&self, text: &str, tone: Tone) {
        put(&format!("{}\n", paint(text, tone, self.colour_err)));
    }
}

fn put(text: &str) {
    // Nobody is left to tell that standard error is gone.
    drop(io::stderr().lock().write_all(text.as_bytes()));
}

/// Makes foreign text safe for one line of a terminal: replaces control characters.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// Makes foreign text safe for a terminal: replaces control characters except line breaks.
pub(crate) fn clean_lines(text: &str) -> String {
    text.lines().map(clean).collect::<Vec<_>>().join("\n")
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
    let mut text = format!("{} {error}\n", paint("error:", Tone::Bad, colour));
    let mut source = error.source();
    while let Some(cause) = source {
        // Writing to a string can't fail.
        let _ = writeln!(text, "  caused by: {cause}");
        source = cause.source();
    }
    if let Some(hint) = hint {
        let _ = writeln!(text, "  {} {hint}", paint("hint:", Tone::Good, colour));
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
    }
}
