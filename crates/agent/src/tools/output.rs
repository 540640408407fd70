//! Gathers output: bounded in memory, readable as text.

use crate::shape;

/// Bytes from the start of the output. The journal takes more than the model's window.
const HEAD_BYTES: usize = 96 * 1024;
/// Bytes from the end of the output.
const TAIL_BYTES: usize = 160 * 1024;

/// The start and the end of an output.
#[derive(Debug, Default)]
pub(crate) struct GatheredOutput {
    head: Vec<u8>,
    tail: std::collections::VecDeque<u8>,
    left_out: u64,
}

impl GatheredOutput {
    /// Appends bytes. Beyond the bounds, bytes in the middle are dropped and counted.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let room = HEAD_BYTES - self.head.len();
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        self.head.extend_from_slice(head);
        self.tail.extend(rest);
        let over = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..over);
        self.left_out += over as u64;
    }

    /// Notes that bytes are missing here.
    pub(crate) fn lost(&mut self, bytes: u64) {
        self.push(format!("\n[… {} lost …]\n", shape::size(bytes)).as_bytes());
    }

    /// Returns the output as readable text.
    pub(crate) fn text(&self) -> String {
        let (first, second) = self.tail.as_slices();
        let tail = [first, second].concat();
        if self.left_out == 0 {
            return shape::plain(&String::from_utf8_lossy(&[self.head.as_slice(), &tail].concat()));
        }
        let (head, tail) = (String::from_utf8_lossy(&self.head), String::from_utf8_lossy(&tail));
        format!(
            "{}\n[… {} of output left out …]\n{}",
            shape::plain(&head),
            shape::size(self.left_out),
            shape::plain(&tail)
        )
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
    }

    #[test]
    fn letters_that_come_in_two_pieces_are_whole() {
        let mut gathered = GatheredOutput::default();
        gathered.push(&[b'a', 0xc3]);
        gathered.push(&[0xa9, b'\n']);
        assert_eq!(gathered.text(), "aé\n");
    }
}
