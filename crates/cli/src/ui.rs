//! Output for people: colour, tables, questions and errors. Progress is in `progress`.
//!
//! Jobs choose names, titles, reasons and parts of errors, so everything that is printed here is cleaned here: no caller has
//! to remember it. Output of jobs, which may be any bytes, is in `job/output`.
//!
//! Data goes to standard output, everything else to standard error. Nothing depends on colour: it is off when the
//! stream is no terminal, `NO_COLOR` is set or `TERM` is `dumb`, unless `FORCE_COLOR` is set. Tables fit the terminal.

use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

use rustix::termios;
use serde::Serialize;

use crate::config::ColourWish;
use crate::progress::ProgressLine;
use crate::table::{TableLayout, fitted, width_of, wrapped};

/// Output settings of the command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ui {
    colour_out: bool,
    colour_err: bool,
    terminal_out: bool,
    interactive: bool,
    /// Columns of the terminal that standard output is; `None` if it is none.
    columns: Option<usize>,
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
    /// Inspects the standard streams.
    pub(crate) fn detect(wish: ColourWish) -> Self {
        let (out, err) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        let colour = |terminal: bool| match wish {
            ColourWish::OnTerminals => terminal,
            ColourWish::Always => true,
            ColourWish::Never => false,
        };
        Self {
            colour_out: colour(out),
            colour_err: colour(err),
            terminal_out: out,
            interactive: err && io::stdin().is_terminal(),
            columns: out.then(terminal_columns).flatten(),
        }
    }

    /// True if standard output is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal_out
    }

    /// True if a person can be asked.
    pub(crate) fn is_interactive(&self) -> bool {
        self.interactive
    }

    /// Prints names with their values to standard output. On a terminal, a long value goes on below its beginning.
    pub(crate) fn fields(&self, fields: &[(&str, String)]) -> io::Result<()> {
        put_line(render_fields(fields, self.columns).trim_end_matches('\n'))
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

    /// Prints a table to standard output. The last column is never padded. On a terminal, long cells are cut so that no line is
    /// longer than the terminal is wide.
    pub(crate) fn table(&self, head: &[&str], rows: &[Vec<TableCell>]) -> io::Result<()> {
        self.print_table(head, rows, self.columns)
    }

    /// Prints a table whose cells are whole, however long they are.
    pub(crate) fn whole_table(&self, head: &[&str], rows: &[Vec<TableCell>]) -> io::Result<()> {
        self.print_table(head, rows, None)
    }

    fn print_table(&self, head: &[&str], rows: &[Vec<TableCell>], columns: Option<usize>) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(render_table(head, rows, self.colour_out, columns).as_bytes())?;
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

    /// Returns the progress of a transfer whose length may be known.
    pub(crate) fn transfer(&self, what: &str, length: Option<u64>) -> ProgressLine {
        ProgressLine::transfer(what, io::stderr().is_terminal(), length)
    }

    /// Writes over the last line of standard error, if that is a terminal; elsewhere prints a line.
    pub(crate) fn status_line(&self, text: &str) {
        let text = clean(text);
        match self.columns.filter(|_| self.interactive) {
            Some(columns) => put(&format!("\r\u{1b}[K{}", fitted(&text, columns.saturating_sub(1)))),
            None => put(&format!("{text}\n")),
        }
    }

    /// Asks a question. Returns the first letter of the answer in lower case; `None` at the end of input.
    pub(crate) fn ask(&self, question: &str) -> Option<char> {
        put(&format!("{} ", clean_lines(question)));
        let mut answer = String::new();
        io::stdin().read_line(&mut answer).ok()?;
        answer.trim().chars().next().map(|letter| letter.to_ascii_lowercase())
    }

    /// Shows the beginning of a line that a person is to finish.
    pub(crate) fn prompt(&self, text: &str) {
        put(&format!("{} ", paint(&clean_lines(text), Tone::Strong, self.colour_err)));
    }

    /// Reads a line of standard input; `None` at its end.
    pub(crate) fn read_line(&self) -> Option<String> {
        let mut line = String::new();
        match io::stdin().read_line(&mut line) {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(line),
        }
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

/// Letters of an id that are shown: of a million jobs, hardly two begin with the same.
const SHORT_ID: usize = 8;

/// Returns the beginning of an id, for people.
pub(crate) fn short_id(id: &str) -> &str {
    id.get(..SHORT_ID).unwrap_or(id)
}

/// Returns a number with its noun in singular or plural.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {}", plural(noun)) }
}

/// Returns the regular plural of an English noun.
fn plural(noun: &str) -> String {
    let hisses = ["s", "x", "z", "ch", "sh"].iter().any(|end| noun.ends_with(end));
    match noun.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'i', 'o', 'u'])) {
        Some(stem) => format!("{stem}ies"),
        None if hisses => format!("{noun}es"),
        None => format!("{noun}s"),
    }
}

fn paint(text: &str, tone: Tone, colour: bool) -> String {
    if colour && tone != Tone::Plain {
        format!("\u{1b}[{}m{text}\u{1b}[0m", tone.code())
    } else {
        text.to_owned()
    }
}

/// Columns of the terminal that standard output is.
pub(crate) fn terminal_columns() -> Option<usize> {
    let size = termios::tcgetwinsize(io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

fn render_table(head: &[&str], rows: &[Vec<TableCell>], colour: bool, columns: Option<usize>) -> String {
    let mut lines =
        vec![head.iter().map(|text| TableCell((*text).to_owned(), Tone::Strong)).collect::<Vec<_>>()];
    lines.extend(rows.iter().map(|row| row.iter().map(|cell| TableCell(clean(&cell.0), cell.1)).collect()));
    let layout = TableLayout::of(lines.iter().map(|row| row.iter().map(|cell| width_of(&cell.0))), columns);
    let mut text = String::new();
    for row in &lines {
        for (column, cell) in row.iter().enumerate() {
            let width = layout.width(column);
            let shown = fitted(&cell.0, width);
            text.push_str(&paint(&shown, cell.1, colour));
            if column + 1 < row.len() {
                text.push_str(&" ".repeat(width.saturating_sub(width_of(&shown)) + TableLayout::GAP));
            }
        }
        text.truncate(text.trim_end_matches(' ').len());
        text.push('\n');
    }
    text
}

/// The column at which values begin.
const FIELD_WIDTH: usize = 12;

fn render_fields(fields: &[(&str, String)], columns: Option<usize>) -> String {
    let room = columns.map(|columns| columns.saturating_sub(FIELD_WIDTH));
    let mut text = String::new();
    for (name, value) in fields {
        let value = clean(value);
        let lines = room.map_or_else(|| vec![value.clone()], |room| wrapped(&value, room));
        for (number, line) in lines.iter().enumerate() {
            let name = if number == 0 { format!("{name}:") } else { String::new() };
            text += format!("{name:<FIELD_WIDTH$}{line}").trim_end();
            text.push('\n');
        }
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
    fn a_number_has_its_noun_in_the_right_form() {
        for (count, noun, words) in [
            (0, "file", "0 files"),
            (1, "entry", "1 entry"),
            (2, "entry", "2 entries"),
            (2, "key", "2 keys"),
            (3, "process", "3 processes"),
            (2, "ended job", "2 ended jobs"),
        ] {
            assert_eq!(counted(count, noun), words);
        }
    }

    #[test]
    fn columns_line_up_and_colour_does_not_count() {
        let rows = vec![
            vec![TableCell("a".into(), Tone::Good), TableCell::plain("one")],
            vec![TableCell("bbb".into(), Tone::Bad), TableCell::plain("two")],
        ];
        assert_eq!(render_table(&["ID", "WHAT"], &rows, false, None), "ID   WHAT\na    one\nbbb  two\n");
        assert!(render_table(&["ID", "WHAT"], &rows, true, None).contains("\u{1b}[32ma\u{1b}[0m    one"));
    }

    #[test]
    fn a_long_value_goes_on_below_its_beginning() {
        let fields = [("state", "done".to_owned()), ("why", "one two three\u{1b}".to_owned())];
        assert_eq!(render_fields(&fields, None), "state:      done\nwhy:        one two three\n");
        let narrow = "state:      done\nwhy:        one two\n            three\n";
        assert_eq!(render_fields(&fields, Some(20)), narrow);
    }

    #[test]
    fn foreign_text_cant_steer_the_terminal() {
        let rows = vec![vec![TableCell::plain("a\u{1b}[2Jb\nc")]];
        assert_eq!(render_table(&["N"], &rows, false, None), "N\na [2Jb c\n");
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
