//! Gathers output: bounded in memory, readable as text.

use std::collections::VecDeque;

use crate::shape;

/// Bytes from the start of the output in a result. The journal takes more than the model's window.
const HEAD_BYTES: usize = 96 * 1024;
/// Bytes from the end of the output in a result.
const TAIL_BYTES: usize = 160 * 1024;
/// Bytes from the start, and as many from the end, that are kept behind the journal. Half of what an entry may have there.
const WHOLE_BYTES: usize = 4 * 1024 * 1024 - 4096;

/// The start and the end of an output.
#[derive(Debug, Default)]
pub(crate) struct GatheredOutput {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    dropped: u64,
}

impl GatheredOutput {
    /// Appends bytes. Beyond the bounds, bytes in the middle are dropped and counted.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let room = WHOLE_BYTES - self.head.len();
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(head);
        self.tail.extend(rest);
        let over = self.tail.len().saturating_sub(WHOLE_BYTES);
        self.tail.drain(..over);
        self.dropped += over as u64;
    }

    /// Notes that bytes are missing here.
    pub(crate) fn lost(&mut self, bytes: u64) {
        self.push(format!("\n[… {} lost …]\n", shape::size(bytes)).as_bytes());
    }

    /// Returns the output as readable text, without its middle if it is long.
    pub(crate) fn text(&self) -> String {
        let gathered = self.head.len() + self.tail.len();
        let plain = |bytes: &[u8]| shape::plain(&String::from_utf8_lossy(bytes));
        if gathered <= HEAD_BYTES + TAIL_BYTES {
            return plain(&self.joined());
        }
        let left_out = (gathered - HEAD_BYTES - TAIL_BYTES) as u64 + self.dropped;
        let size = shape::size(left_out);
        format!(
            "{}\n[… {size} of output left out …]\n{}",
            plain(&self.head[..HEAD_BYTES]),
            plain(&self.last())
        )
    }

    /// The whole output, byte for byte, if `text` leaves something out. A middle that was dropped is counted in a line.
    pub(crate) fn whole(&self) -> Option<Vec<u8>> {
        if self.head.len() + self.tail.len() <= HEAD_BYTES + TAIL_BYTES {
            return None;
        }
        if self.dropped == 0 {
            return Some(self.joined());
        }
        let gap = format!("\n[… {} of output left out …]\n", shape::size(self.dropped));
        let (first, second) = self.tail.as_slices();
        Some([self.head.as_slice(), gap.as_bytes(), first, second].concat())
    }

    fn joined(&self) -> Vec<u8> {
        let (first, second) = self.tail.as_slices();
        [self.head.as_slice(), first, second].concat()
    }

    /// The last bytes of the output that a result has.
    fn last(&self) -> Vec<u8> {
        let from_head = TAIL_BYTES.saturating_sub(self.tail.len());
        let head = &self.head[self.head.len() - from_head..];
        let tail = self.tail.len() - (TAIL_BYTES - from_head);
        head.iter().chain(self.tail.range(tail..)).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_keeps_its_beginning_and_its_end() {
        let mut gathered = GatheredOutput::default();
        for line in 0..200_000 {
            gathered.push(format!("line {line}\n").as_bytes());
        }
        let text = gathered.text();
        assert!(text.starts_with("line 0\n") && text.ends_with("line 199999\n"));
        assert!(text.contains("of output left out") && text.len() < HEAD_BYTES + TAIL_BYTES + 100);
        let whole: String = (0..200_000).map(|line| format!("line {line}\n")).collect();
        assert_eq!(gathered.whole().unwrap(), whole.as_bytes(), "it is kept whole");
        assert_eq!(GatheredOutput::default().whole(), None);
    }

    #[test]
    fn the_middle_of_an_endless_output_is_dropped() {
        let mut gathered = GatheredOutput::default();
        for line in 0..2_000_000 {
            gathered.push(format!("line {line}\n").as_bytes());
        }
        let whole = gathered.whole().unwrap();
        assert!(whole.len() <= 2 * WHOLE_BYTES + 100 && whole.ends_with(b"line 1999999\n"));
        assert!(String::from_utf8(whole).unwrap().contains("of output left out"));
        assert!(gathered.text().ends_with("line 1999999\n"));
    }

    #[test]
    fn letters_that_come_in_two_pieces_are_whole() {
        let mut gathered = GatheredOutput::default();
        gathered.push(&[b'a', 0xc3]);
        gathered.push(&[0xa9, b'\n']);
        assert_eq!(gathered.text(), "aé\n");
    }
}
