//! The text of an answer, gathered into runs for the job's events: a few a second are enough to watch.

use std::time::Duration;

use tokio::time::Instant;

/// The longest run in one event.
const MAX_RUN_BYTES: usize = 64 * 1024;
/// Longest time that text waits for more.
const GATHER_TIME: Duration = Duration::from_millis(150);

/// A run of an answer's text, and the collector of such runs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AnswerText {
    /// The journal number that the answer is expected to have.
    pub(crate) number: u64,
    /// Bytes of the answer before this run; 0 again if the call was repeated.
    pub(crate) offset: u64,
    pub(crate) text: String,
    since: Option<Instant>,
}

impl AnswerText {
    pub(super) fn new(number: u64) -> Self {
        Self { number, offset: 0, text: String::new(), since: None }
    }

    pub(super) fn add(&mut self, text: &str) {
        self.text.push_str(text);
        self.since.get_or_insert_with(Instant::now);
    }

    /// Returns when the collected text has waited for [`GATHER_TIME`]; never while there is none.
    pub(super) async fn due(&self) {
        match self.since {
            Some(since) => tokio::time::sleep_until(since + GATHER_TIME).await,
            None => std::future::pending().await,
        }
    }

    /// Removes and returns the next run of the collected text.
    pub(super) fn take(&mut self) -> Option<Self> {
        self.since = None;
        if self.text.is_empty() {
            return None;
        }
        let rest = self.text.split_off(self.text.floor_char_boundary(MAX_RUN_BYTES));
        let taken = Self { text: std::mem::replace(&mut self.text, rest), ..*self };
        self.offset += taken.text.len() as u64;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_answer_is_told_in_runs_that_follow_each_other() {
        let mut text = AnswerText::new(3);
        assert_eq!(text.take(), None);
        text.add(&"é".repeat(MAX_RUN_BYTES));
        let mut offset = 0;
        while let Some(run) = text.take() {
            assert_eq!((run.number, run.offset), (3, offset));
            assert!(run.text.len() <= MAX_RUN_BYTES);
            offset += run.text.len() as u64;
        }
        assert_eq!(offset, 2 * MAX_RUN_BYTES as u64);
    }
}
