//! Reads server-sent events from chunks of any size, with a bound on one event.
//!
//! `sandyard`'s client reads the events of our own server, which carry ids and names, and reconnects by id. Providers send
//! only `data`, sometimes without the final empty line. The two readers share no rule beyond splitting lines.

/// The longest event. Providers put a few tokens into each, or at most a whole tool call.
const MAX_EVENT_BYTES: usize = 8 * 1024 * 1024;

/// An event exceeds [`MAX_EVENT_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the provider sent an event that is too long")]
pub(super) struct SseEventTooLong;

/// Collects bytes and returns whole events.
#[derive(Debug, Default)]
pub(super) struct SseEvents {
    buffer: Vec<u8>,
    /// Position in `buffer` before which there is no line end, so that no byte is searched twice.
    seen: usize,
    data: String,
}

impl SseEvents {
    /// Adds bytes.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), SseEventTooLong> {
        if self.buffer.len() + bytes.len() + self.data.len() > MAX_EVENT_BYTES {
            return Err(SseEventTooLong);
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// Returns the data of the next whole event. Names and ids are ignored: providers repeat them in the data.
    pub(super) fn next(&mut self) -> Option<String> {
        loop {
            let Some(offset) = self.buffer[self.seen..].iter().position(|byte| *byte == b'\n') else {
                self.seen = self.buffer.len();
                return None;
            };
            let end = self.seen + offset;
            let line = String::from_utf8_lossy(&self.buffer[..end]).trim_end_matches('\r').to_owned();
            self.buffer.drain(..=end);
            self.seen = 0;
            if line.is_empty() {
                if !self.data.is_empty() {
                    return Some(std::mem::take(&mut self.data));
                }
            } else if let Some(data) = line.strip_prefix("data:") {
                if !self.data.is_empty() {
                    self.data.push('\n');
                }
                self.data.push_str(data.strip_prefix(' ').unwrap_or(data));
            }
        }
    }

    /// Returns the data of an event without its final empty line, once the stream has ended.
    pub(super) fn last(&mut self) -> Option<String> {
        self.buffer.extend_from_slice(b"\n\n");
        self.next()
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
