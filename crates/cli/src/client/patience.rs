//! How long and how often a client tries to reach a server that is away: a restart takes seconds.

use std::time::Duration;

use tokio::time::Instant;

/// Longest time to retry while the server is away.
const LONGEST_ABSENCE: Duration = Duration::from_secs(60);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The state of a client that tries again.
#[derive(Debug)]
pub(super) struct RetryPatience {
    away_since: Option<Instant>,
    told: bool,
    pause: Duration,
}

impl Default for RetryPatience {
    fn default() -> Self {
        Self { away_since: None, told: false, pause: FIRST_PAUSE }
    }
}

impl RetryPatience {
    /// True while another attempt is worth it; counts from the first call since the last connection.
    pub(super) fn lasts(&mut self) -> bool {
        let now = Instant::now();
        now.duration_since(*self.away_since.get_or_insert(now)) < LONGEST_ABSENCE
    }

    /// Waits before the next attempt. True the first time since the last connection: somebody should be told.
    pub(super) async fn pause(&mut self) -> bool {
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        !std::mem::replace(&mut self.told, true)
    }

    /// The server answers. True if somebody was told that it was away.
    pub(super) fn connected(&mut self) -> bool {
        self.away_since = None;
        std::mem::take(&mut self.told)
    }

    /// The connection is useful: the next pause is short again.
    pub(super) fn progressed(&mut self) {
        self.pause = FIRST_PAUSE;
    }
}
