//! What a model says, gathered for those who watch: a few times a second is live enough.

use std::time::Duration;

use tokio::time::Instant;

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

    /// Those that are there.
    pub(super) fn take(&mut self) -> Option<Self> {
        if self.text.is_empty() {
            return None;
        }
        let taken = Self { since: None, text: std::mem::take(&mut self.text), ..*self };
        self.since = None;
        self.offset += taken.text.len() as u64;
        Some(taken)
    }
}
