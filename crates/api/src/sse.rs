//! Server-sent events: bytes in, frames out, by the rules of the HTML standard for `event`, `id` and `data`.

/// One server-sent event with the fields that Sandyard uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SseFrame {
    /// The field `id`, if it is a number.
    pub id: Option<u64>,
    /// Value of the field `event`; empty if it is missing.
    pub event: String,
    /// The fields `data`, one line each.
    pub data: String,
}

/// An event that is longer than the reader accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event is longer than {max_bytes} bytes")]
pub struct SseTooLong {
    max_bytes: usize,
}

/// Cuts bytes into lines and lines into frames. Chunks may end anywhere.
#[derive(Debug)]
pub struct SseParser {
    max_bytes: usize,
    pending: Vec<u8>,
    /// Bytes of `pending` that `take` has consumed.
    taken: usize,
    /// Position at which the search for the end of a line continues, so that no byte is searched twice.
    searched: usize,
    frame: SseFrame,
    has_data: bool,
}

impl SseParser {
    /// Returns a parser that holds at most `max_bytes` of an unfinished event.
    pub fn new(max_bytes: usize) -> Self {
        Self {
            max_bytes,
            pending: Vec::new(),
            taken: 0,
            searched: 0,
            frame: SseFrame::default(),
            has_data: false,
        }
    }

    /// Adds received bytes. Call [`take`](Self::take) until it returns `None` before adding more.
    ///
    /// # Errors
    ///
    /// The unfinished event is too long. The parser can't be used any more.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<(), SseTooLong> {
        self.pending.drain(..self.taken);
        self.searched -= self.taken;
        self.taken = 0;
        self.pending.extend_from_slice(bytes);
        // Before anything is parsed: a server that never ends a line could fill the client's memory.
        if self.pending.len() + self.frame.data.len() > self.max_bytes {
            return Err(SseTooLong { max_bytes: self.max_bytes });
        }
        Ok(())
    }

    /// Returns the next whole event; `None` if more bytes are needed.
    pub fn take(&mut self) -> Option<SseFrame> {
        while let Some(length) = self.pending[self.searched..].iter().position(|byte| *byte == b'\n') {
            let end = self.searched + length;
            let line = String::from_utf8_lossy(&self.pending[self.taken..end]).into_owned();
            self.taken = end + 1;
            self.searched = self.taken;
            if let Some(frame) = self.line(line.trim_end_matches('\r')) {
                return Some(frame);
            }
        }
        self.searched = self.pending.len();
        None
    }

    fn line(&mut self, line: &str) -> Option<SseFrame> {
        if line.is_empty() {
            let frame = std::mem::take(&mut self.frame);
            return std::mem::take(&mut self.has_data).then_some(frame);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.frame.id = value.parse().ok(),
            "event" => value.clone_into(&mut self.frame.event),
            "data" => {
                if self.has_data {
                    self.frame.data.push('\n');
                }
                self.frame.data.push_str(value);
                self.has_data = true;
            }
            // A comment has an empty field name; servers send comments to keep a connection alive.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(chunks: &[&[u8]]) -> Vec<SseFrame> {
        let mut parser = SseParser::new(16 * 1024 * 1024);
        let mut frames = Vec::new();
        for chunk in chunks {
            parser.feed(chunk).unwrap();
            while let Some(frame) = parser.take() {
                frames.push(frame);
            }
        }
        frames
    }

    fn frame(id: u64, event: &str, data: &str) -> SseFrame {
        SseFrame { id: Some(id), event: event.to_owned(), data: data.to_owned() }
    }

    const TEXT: &[u8] = b": hello\n\nid: 1\nevent: state\ndata: {\"a\":1}\n\nid: 2\r\nevent: stdout\r\ndata: x\r\ndata: y\r\n\r\n";

    #[test]
    fn frames_are_the_same_however_the_bytes_are_cut() {
        let expected = vec![frame(1, "state", "{\"a\":1}"), frame(2, "stdout", "x\ny")];
        assert_eq!(frames(&[TEXT]), expected);
        for cut in 0..TEXT.len() {
            assert_eq!(frames(&[&TEXT[..cut], &TEXT[cut..]]), expected, "{cut}");
        }
        let single: Vec<_> = TEXT.chunks(1).collect();
        assert_eq!(frames(&single), expected);
    }

    #[test]
    fn comments_and_unfinished_frames_are_no_events() {
        assert_eq!(frames(&[b": ping\n\n: ping\n\nid: 3\n\ndata: half"]), vec![]);
    }

    #[test]
    fn a_frame_without_end_is_refused() {
        let mut parser = SseParser::new(16 * 1024 * 1024);
        let chunk = vec![b'x'; 1024 * 1024];
        let result = (0..32).try_for_each(|_| parser.feed(&chunk));
        assert!(result.is_err());
    }
}
