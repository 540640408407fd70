//! Output of a command, kept to its head and tail.

use std::collections::VecDeque;

/// Bytes kept of the beginning and of the end, each: an answer stays small enough to be read whole, and what usually
/// matters (the first error, the last line) is in it.
const HALF_BYTES: usize = 512 * 1024;

/// The beginning and the end of a stream of any length.
#[derive(Debug)]
pub(in crate::http) struct HeadAndTail {
    half_bytes: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    dropped: u64,
}

impl Default for HeadAndTail {
    fn default() -> Self {
        Self::with_half(HALF_BYTES)
    }
}

impl HeadAndTail {
    /// Keeps this many bytes of the beginning and as many of the end.
    pub(in crate::http) fn with_half(half_bytes: usize) -> Self {
        Self { half_bytes, head: Vec::new(), tail: VecDeque::new(), dropped: 0 }
    }

    /// Adds output. Memory stays below twice the half, however much comes.
    pub(in crate::http) fn push(&mut self, bytes: &[u8]) {
        let half_bytes = self.half_bytes;
        let room = half_bytes - self.head.len();
        let (first, rest) = bytes.split_at(bytes.len().min(room));
        self.head.extend_from_slice(first);
        let rest = if rest.len() > half_bytes {
            let (gone, kept) = rest.split_at(rest.len() - half_bytes);
            self.dropped += gone.len() as u64;
            kept
        } else {
            rest
        };
        let excess = (self.tail.len() + rest.len()).saturating_sub(half_bytes);
        self.tail.drain(..excess);
        self.dropped += excess as u64;
        self.tail.extend(rest);
    }

    /// Counts output that was lost before it came here.
    pub(in crate::http) fn lost(&mut self, bytes: u64) {
        self.dropped = self.dropped.saturating_add(bytes);
    }

    /// Bytes that are not in the text.
    pub(in crate::http) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns the kept bytes, without a mark where something is left out.
    pub(in crate::http) fn into_bytes(mut self) -> Vec<u8> {
        self.head.extend(self.tail);
        self.head
    }

    /// The text, with a line where something is left out.
    pub(in crate::http) fn into_text(mut self) -> String {
        let mut text = String::from_utf8_lossy(&self.head).into_owned();
        if self.dropped > 0 {
            text.push_str(&format!("\n[… {} bytes left out …]\n", self.dropped));
            text.push_str(&String::from_utf8_lossy(self.tail.make_contiguous()));
            return text;
        }
        String::from_utf8_lossy(&self.into_bytes()).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_output_is_whole() {
        let mut output = HeadAndTail::default();
        output.push(b"one ");
        output.push("zw\u{f6}lf".as_bytes());
        assert_eq!((output.dropped(), output.into_text().as_str()), (0, "one zw\u{f6}lf"));
    }

    #[test]
    fn a_character_on_the_border_survives_if_nothing_is_left_out() {
        let mut output = HeadAndTail::default();
        output.push(&vec![b'x'; HALF_BYTES - 1]);
        output.push("üüü".as_bytes());
        assert!(output.into_text().ends_with("xüüü"));
    }

    #[test]
    fn r9_long_output_keeps_head_and_tail_and_counts_the_rest() {
        let mut output = HeadAndTail::default();
        output.push(b"begin");
        for _ in 0..100 {
            output.push(&[b'x'; 100_000]);
        }
        output.push(&vec![b'y'; 3 * HALF_BYTES]);
        output.push(b"end");
        let total = 5 + 100 * 100_000 + 3 * HALF_BYTES + 3;
        assert_eq!(output.dropped(), (total - 2 * HALF_BYTES) as u64);
        let text = output.into_text();
        assert!(text.starts_with("begin") && text.ends_with("yyend") && text.len() < 2 * HALF_BYTES + 100);
    }
}
