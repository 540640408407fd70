//! Marks in the output of bash: where the output of one execution begins and ends, with its exit status.
//!
//! A mark comes on standard output and on standard error, because each stream has an order of its own. It is 128 bits
//! long and derived from a secret of keeper's and the execution's name: output of other executions can't hold it by
//! accident, and the next keeper knows it without having stored it.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

const MARK_BYTES: usize = 16;
const STATUS_DIGITS: usize = 3;
const COUNT_DIGITS: usize = 10;
/// The status that the driver reports for an execution that bash has never begun.
const UNKNOWN_STATUS: u16 = 999;

/// The mark of one execution, in hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark(String);

impl Mark {
    pub(super) fn new(secret: &str, execution: &str) -> Self {
        let Ok(mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else {
            // HMAC takes keys of any length.
            return Self(String::new());
        };
        let digest = mac.chain_update(execution.as_bytes()).finalize().into_bytes();
        Self(hex::encode(&digest[..MARK_BYTES]))
    }
}

impl std::fmt::Display for Mark {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The values that an end mark carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EndMark {
    /// Exit status; `None` if bash never began the execution.
    pub(super) status: Option<u8>,
    /// Number of executions that this bash has begun.
    pub(super) count: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScanPlace {
    Before,
    Inside,
    After(EndMark),
}

/// Finds the marks of one execution in one stream. Holds back at most the bytes of an incomplete mark.
#[derive(Debug)]
pub(super) struct MarkScanner {
    begin: Vec<u8>,
    end: Vec<u8>,
    held: Vec<u8>,
    place: ScanPlace,
}

impl MarkScanner {
    /// For an execution whose begin mark is still to come.
    pub(super) fn new(mark: &Mark) -> Self {
        let (begin, end) = (format!("\0{mark}b\0").into_bytes(), format!("\0{mark}e").into_bytes());
        Self { begin, end, held: Vec::new(), place: ScanPlace::Before }
    }

    /// Assumes that the begin mark came before the first bytes, or was lost with them.
    pub(super) fn assume_begun(&mut self) {
        if self.place == ScanPlace::Before {
            self.held.clear();
            self.place = ScanPlace::Inside;
        }
    }

    pub(super) fn has_begun(&self) -> bool {
        self.place != ScanPlace::Before
    }

    /// The end mark, once it has come.
    pub(super) fn end(&self) -> Option<EndMark> {
        match self.place {
            ScanPlace::After(end) => Some(end),
            ScanPlace::Before | ScanPlace::Inside => None,
        }
    }

    /// Takes the next bytes of the stream. Returns those that are the execution's own output.
    pub(super) fn scan(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.held.extend_from_slice(bytes);
        if self.place == ScanPlace::Before {
            match find(&self.held, &self.begin) {
                Some(at) => {
                    self.held.drain(..at + self.begin.len());
                    self.place = ScanPlace::Inside;
                }
                None => {
                    let outside = self.held.len() - partial(&self.held, &self.begin);
                    self.held.drain(..outside);
                }
            }
        }
        let mut own = Vec::new();
        while self.place == ScanPlace::Inside && !self.held.is_empty() {
            let Some(at) = find(&self.held, &self.end) else {
                let inside = self.held.len() - partial(&self.held, &self.end);
                own.extend(self.held.drain(..inside));
                break;
            };
            own.extend(self.held.drain(..at));
            let digits = self.end.len();
            let Some(rest) = self.held.get(digits..=digits + STATUS_DIGITS + COUNT_DIGITS) else { break };
            match parse_end(rest) {
                Some(end) => self.place = ScanPlace::After(end),
                // Forged: output like any other.
                None => own.extend(self.held.drain(..1)),
            }
        }
        // Bytes after the end belong to no execution, or to the next one, which has a scanner of its own.
        if matches!(self.place, ScanPlace::After(_)) {
            self.held.clear();
        }
        own
    }

    /// Returns the bytes that were held back for a mark that will never be complete.
    pub(super) fn take_rest(&mut self) -> Vec<u8> {
        let held = std::mem::take(&mut self.held);
        if self.place == ScanPlace::Inside { held } else { Vec::new() }
    }
}

/// Reads the digits after an end mark's name, with the NUL after them.
fn parse_end(bytes: &[u8]) -> Option<EndMark> {
    let digits = std::str::from_utf8(bytes.strip_suffix(b"\0")?).ok()?;
    if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let (status, count) = digits.split_at_checked(STATUS_DIGITS)?;
    let status: u16 = status.parse().ok()?;
    let status = if status == UNKNOWN_STATUS { None } else { Some(u8::try_from(status).ok()?) };
    Some(EndMark { status, count: count.parse().ok()? })
}

fn find(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
    // Marks begin with NUL, which text does not hold, so that few places are compared.
    let mut from = 0;
    while let Some(at) = bytes[from..].iter().position(|byte| *byte == 0).map(|at| from + at) {
        if bytes[at..].starts_with(pattern) {
            return Some(at);
        }
        from = at + 1;
    }
    None
}

/// Number of last bytes that may be the beginning of the pattern.
fn partial(bytes: &[u8], pattern: &[u8]) -> usize {
    let most = bytes.len().min(pattern.len() - 1);
    (1..=most).rev().find(|count| pattern.starts_with(&bytes[bytes.len() - count..])).unwrap_or(0)
}

/// Turns bytes of a stream into text. A character that is cut off waits for its rest.
#[derive(Debug, Default)]
pub(super) struct TextDecoder(Vec<u8>);

impl TextDecoder {
    pub(super) fn decode(&mut self, bytes: &[u8]) -> String {
        self.0.extend_from_slice(bytes);
        let invalid = self.0.utf8_chunks().last().map_or(&[][..], |chunk| chunk.invalid());
        let is_cut = std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
        let whole = self.0.len() - if is_cut { invalid.len() } else { 0 };
        let text = String::from_utf8_lossy(&self.0[..whole]).into_owned();
        self.0.drain(..whole);
        text
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mark() -> Mark {
        Mark::new("secret", "x1-1")
    }

    #[test]
    fn output_is_what_lies_between_the_marks_however_it_is_cut() {
        let mark = mark();
        let other = Mark::new("secret", "x1-2");
        let stream =
            format!("late\0{other}e0000000000001\0\0{mark}b\0one\0two\0{mark}e0070000000002\0(venv) ");
        for cut in 0..=stream.len() {
            let mut scanner = MarkScanner::new(&mark);
            let (head, tail) = stream.as_bytes().split_at(cut);
            let mut own = scanner.scan(head);
            own.extend(scanner.scan(tail));
            assert_eq!(own, b"one\0two", "cut at {cut}");
            assert_eq!(scanner.end(), Some(EndMark { status: Some(7), count: 2 }));
        }
    }

    #[test]
    fn an_execution_that_never_began_has_no_status() {
        let mark = mark();
        let mut scanner = MarkScanner::new(&mark);
        scanner.assume_begun();
        assert_eq!(scanner.scan(format!("\0{mark}e9990000000004\0").as_bytes()), b"");
        assert_eq!(scanner.end(), Some(EndMark { status: None, count: 4 }));
    }

    #[test]
    fn forged_marks_are_text() {
        let mark = mark();
        for forged in ["e12x0000000002\0", "e3000000000002\0", "e00000000000022", "e\0\0\0aaaaaaaaaaaaaaaaa"]
        {
            let mut scanner = MarkScanner::new(&mark);
            scanner.assume_begun();
            let forged = format!("\0{mark}{forged}");
            let mut own = scanner.scan(forged.as_bytes());
            own.extend(scanner.take_rest());
            assert_eq!((own, scanner.end()), (forged.into_bytes(), None));
        }
    }

    #[test]
    fn a_character_that_is_cut_waits_for_its_rest() {
        let mut decoder = TextDecoder::default();
        let (head, tail) = "a€".as_bytes().split_at(2);
        assert_eq!((decoder.decode(head), decoder.decode(tail)), ("a".into(), "€".into()));
        assert_eq!(decoder.decode(b"\xffb"), "\u{fffd}b");
    }

    proptest! {
        #[test]
        fn no_stream_is_lost_or_held_without_bound(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..20)) {
            let mut scanner = MarkScanner::new(&mark());
            scanner.assume_begun();
            let mut own = Vec::new();
            for piece in &pieces {
                own.extend(scanner.scan(piece));
                prop_assert!(scanner.held.len() < 64);
            }
            own.extend(scanner.take_rest());
            prop_assert_eq!(own, pieces.concat());
        }
    }
}
