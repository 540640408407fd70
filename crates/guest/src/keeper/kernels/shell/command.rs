//! The lines that bash reads from its standard input.
//!
//! Lines go in writes of at most `PIPE_BUF` bytes, which a pipe takes as a whole or not at all (pipe(7)). So a keeper that
//! is killed at any moment leaves whole lines behind, and the next keeper's lines are understood. Code is one quoted
//! word on one or several of these lines, never a part of their syntax.

use std::collections::VecDeque;
use std::fmt::Write as _;

use super::marks::Mark;

/// Most bytes of one write: `PIPE_BUF` of Linux, up to which a write to a pipe is atomic.
const WRITE_BYTES: usize = 4096;
/// Code on one line, each byte of which may take four (`\xHH`), with room for the assignment around it.
const LINE_CODE_BYTES: usize = (WRITE_BYTES - 64) / 4;
/// Defines the functions that the lines call. May be read by the same bash again, after a restart of keeper.
const DRIVER: &str = include_str!("driver.sh");

/// Writes that wait for room in the pipe.
#[derive(Debug, Default)]
pub(super) struct Commands(VecDeque<Vec<u8>>);

impl Commands {
    /// An empty queue, but for the driver.
    pub(super) fn new() -> Self {
        Self(VecDeque::from([DRIVER.as_bytes().to_vec()]))
    }

    /// Adds the lines that run code between the marks. The second line reports the end once more, for code whose end
    /// took the rest of the first line with it: an interrupt, or an error such as `${unset:?}`.
    pub(super) fn run(&mut self, mark: &Mark, code: &str) {
        self.push(b"__sandyard_code=\n");
        for piece in code.as_bytes().chunks(LINE_CODE_BYTES) {
            self.push(format!("__sandyard_code+={}\n", quoted(piece)).as_bytes());
        }
        let line = format!(
            "{{ __sandyard_begin {mark}; }} 2>/dev/null; \\builtin eval \"$__sandyard_code\" </dev/null; \
             {{ __sandyard_end {mark} $?; }} >/dev/null 2>&1\n{}",
            end_line(mark)
        );
        self.push(line.as_bytes());
    }

    /// Adds a line that reports the end of an execution again, after the code that runs now.
    pub(super) fn report_again(&mut self, mark: &Mark) {
        self.push(end_line(mark).as_bytes());
    }

    /// Returns the next write without removing it: a cancelled write is repeated as a whole.
    pub(super) fn front(&self) -> Option<&[u8]> {
        self.0.front().map(Vec::as_slice)
    }

    /// Removes the next write after it was made.
    pub(super) fn pop(&mut self) {
        self.0.pop_front();
    }

    fn push(&mut self, line: &[u8]) {
        match self.0.back_mut() {
            Some(last) if last.len() + line.len() <= WRITE_BYTES => last.extend_from_slice(line),
            _ => self.0.push_back(line.to_vec()),
        }
    }
}

fn end_line(mark: &Mark) -> String {
    format!("{{ __sandyard_end {mark} $?; }} >/dev/null 2>&1\n")
}

/// A word that bash reads as exactly these bytes: ANSI-C quoting, with all but plain characters as escapes.
fn quoted(bytes: &[u8]) -> String {
    let mut word = String::with_capacity(bytes.len() + 16);
    word.push_str("$'");
    for &byte in bytes {
        match byte {
            b' '..=b'~' if !matches!(byte, b'\'' | b'\\' | b'!') => word.push(char::from(byte)),
            _ => drop(write!(word, "\\x{byte:02x}")),
        }
    }
    word.push('\'');
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_write_is_whole_for_a_pipe_and_ends_a_line() {
        let mark = Mark::new("secret", "x1-1");
        for code in ["", "echo 'a' \\ \"b\" !x\n\t€", &"ü'".repeat(20_000)] {
            let mut commands = Commands::new();
            commands.run(&mark, code);
            commands.report_again(&mark);
            assert!(DRIVER.len() <= WRITE_BYTES);
            while let Some(write) = commands.front() {
                assert!(write.len() <= WRITE_BYTES && write.ends_with(b"\n"));
                commands.pop();
            }
        }
    }

    #[test]
    fn bash_reads_a_quoted_word_as_the_same_bytes() {
        let bytes: Vec<u8> = (1..=255).chain(*b"'\\x21!$(false)`\n\\'ab\x01c\x7f").collect();
        let script = format!("printf %s {}", quoted(&bytes));
        let output = std::process::Command::new("bash").args(["-c", &script]).output().unwrap();
        assert_eq!(output.stdout, bytes);
    }
}
