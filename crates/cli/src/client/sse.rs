//! Server-sent events: bytes in, frames out, by the rules of the HTML standard for `event`, `id` and `data`.

use std::pin::Pin;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};

use super::ClientError;

/// Longest frame we accept. Output comes in chunks of at most 1 MiB, which JSON escapes can make six times longer.
const FRAME_BYTES: usize = 16 * 1024 * 1024;

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SseFrame {
    /// The field `id`, if it is a number.
    pub(crate) id: Option<u64>,
    /// The field `event`.
    pub(crate) event: String,
    /// The lines of `data`.
    pub(crate) data: String,
}

/// Reads frames from a response.
pub(crate) struct SseReader {
    bytes: Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>,
    parser: Parser,
}

impl SseReader {
    pub(super) fn new(response: reqwest::Response) -> Self {
        Self { bytes: Box::pin(response.bytes_stream()), parser: Parser::default() }
    }

    /// The next frame; `None` when the server has closed the stream.
    pub(crate) async fn next(&mut self) -> Result<Option<SseFrame>, ClientError> {
        loop {
            if let Some(frame) = self.parser.take() {
                return Ok(Some(frame));
            }
            match self.bytes.next().await {
                Some(Ok(bytes)) => self.parser.feed(&bytes)?,
                Some(Err(error)) => return Err(ClientError::Lost(error)),
                None => return Ok(None),
            }
        }
    }
}

/// Cuts bytes into lines and lines into frames.
#[derive(Default)]
struct Parser {
    pending: Vec<u8>,
    /// Bytes of `pending` that were taken already.
    taken: usize,
    /// Where the search for the end of the line goes on, so that no byte is looked at twice.
    searched: usize,
    frame: SseFrame,
    has_data: bool,
}

impl Parser {
    fn feed(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        self.pending.drain(..self.taken);
        self.searched -= self.taken;
        self.taken = 0;
        self.pending.extend_from_slice(bytes);
        if self.pending.len() + self.frame.data.len() > FRAME_BYTES {
            return Err(ClientError::Stream("an event is too long"));
        }
        Ok(())
    }

    fn take(&mut self) -> Option<SseFrame> {
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
            // Comments (an empty field) keep the connection alive; other fields are not for us.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(chunks: &[&[u8]]) -> Vec<SseFrame> {
        let mut parser = Parser::default();
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
        let mut parser = Parser::default();
        let chunk = vec![b'x'; 1024 * 1024];
        let result = (0..32).try_for_each(|_| parser.feed(&chunk));
        assert!(matches!(result, Err(ClientError::Stream(_))));
    }
}
