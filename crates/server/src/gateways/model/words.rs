//! What a model says, gathered for those who watch: a few times a second is live enough.

use std::time::Duration;

use tokio::time::Instant;

/// The longest run that is told at once.
const RUN_BYTES: usize = 64 * 1024;
/// How long words wait for more.
const GATHERED_FOR: Duration = Duration::from_millis(150);

/// A run of an answer's words.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Words {
    /// The journal number that the answer is expected to have.
    pub(crate) number: u64,
    /// Bytes of the answer before them; 0 again if the model had to be asked anew.
    pub(crate) offset: u64,
    pub(crate) text: String,
    since: Option<Instant>,
}

impl Words {
    /// None so far.
    pub(super) fn new(number: u64) -> Self {
        Self { number, offset: 0, text: String::new(), since: None }
    }

    /// Adds some.
    pub(super) fn add(&mut self, text: &str) {
        self.text.push_str(text);
        self.since.get_or_insert_with(Instant::now);
    }

    /// Returns when those that are there have waited long enough.
    pub(super) async fn due(&self) {
        match self.since {
            Some(since) => tokio::time::sleep_until(since + GATHERED_FOR).await,
            None => std::future::pending().await,
        }
    }

    /// Those that are there, a run at a time.
    pub(super) fn take(&mut self) -> Option<Self> {
        self.since = None;
        if self.text.is_empty() {
            return None;
        }
        let rest = self.text.split_off(self.text.floor_char_boundary(RUN_BYTES));
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
        let mut words = Words::new(3);
        assert_eq!(words.take(), None);
        words.add(&"é".repeat(RUN_BYTES));
        let mut offset = 0;
        while let Some(run) = words.take() {
            assert_eq!((run.number, run.offset), (3, offset));
            assert!(run.text.len() <= RUN_BYTES);
            offset += run.text.len() as u64;
        }
        assert_eq!(offset, 2 * RUN_BYTES as u64);
    }
}
