//! Reads the server-sent events of a provider: the parser of the HTTP contract with the habits of providers.

use sandyard_api::{SseParser, SseTooLong};

/// The longest event. Providers put a few tokens into each, or at most a whole tool call.
const MAX_EVENT_BYTES: usize = 8 * 1024 * 1024;

/// Collects bytes and returns the data of whole events.
#[derive(Debug)]
pub(super) struct SseEvents {
    parser: SseParser,
}

impl Default for SseEvents {
    fn default() -> Self {
        Self { parser: SseParser::new(MAX_EVENT_BYTES) }
    }
}

impl SseEvents {
    /// Adds bytes as they arrive, in pieces of any size.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), SseTooLong> {
        self.parser.feed(bytes)
    }

    /// Returns the data of the next whole event. Names and ids are ignored: providers repeat them in the data.
    pub(super) fn next(&mut self) -> Option<String> {
        std::iter::from_fn(|| self.parser.take()).map(|frame| frame.data).find(|data| !data.is_empty())
    }

    /// Returns the data of an event without its final empty line, once the stream has ended.
    pub(super) fn last(&mut self) -> Option<String> {
        self.parser.feed(b"\n\n").ok().and_then(|()| self.next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(chunks: &[&str]) -> Vec<String> {
        let mut events = SseEvents::default();
        let mut found = Vec::new();
        for chunk in chunks {
            events.push(chunk.as_bytes()).unwrap();
            while let Some(event) = events.next() {
                found.push(event);
            }
        }
        found.extend(events.last());
        found
    }

    #[test]
    fn events_come_out_whole_however_they_were_cut() {
        let text = "event: a\r\ndata: one\r\n\r\n: comment\n\ndata: two\ndata: lines\n\ndata:three\n\n";
        let whole = ["one", "two\nlines", "three"];
        assert_eq!(all(&[text]), whole);
        let single: Vec<String> = text.chars().map(String::from).collect();
        assert_eq!(all(&single.iter().map(String::as_str).collect::<Vec<_>>()), whole);
    }

    #[test]
    fn a_last_event_without_its_empty_line_counts() {
        assert_eq!(all(&["data: [DONE]"]), ["[DONE]"]);
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut events = SseEvents::default();
        let part = vec![b'x'; 1024 * 1024];
        assert!((0..9).any(|_| events.push(&part).is_err()));
    }
}
