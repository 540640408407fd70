//! How fast a job may try to get out. Every attempt is recorded for good, also one that is refused, so that a loop of them would
//! fill the host's store; beyond a burst each waits for its turn.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Attempts that need not wait: installing a large project makes some hundreds.
const BURST: u32 = 2000;
/// From one to the next afterwards: an hour of them is some 40 MB of records.
const INTERVAL: Duration = Duration::from_millis(100);

/// The pace of one job.
#[derive(Debug)]
pub(super) struct Pace(Mutex<Turns>);

#[derive(Debug)]
struct Turns {
    /// When the next one is due if none is in hand.
    due: Instant,
    in_hand: u32,
}

impl Pace {
    /// With a whole burst in hand.
    pub(super) fn new() -> Self {
        Self(Mutex::new(Turns { due: Instant::now(), in_hand: BURST }))
    }

    /// Waits for the caller's turn. Whoever goes away meanwhile has used it up.
    pub(super) async fn turn(&self) {
        let due = self.0.lock().unwrap_or_else(PoisonError::into_inner).take(Instant::now());
        tokio::time::sleep_until(due).await;
    }
}

impl Turns {
    /// When the turn that is taken now comes.
    fn take(&mut self, now: Instant) -> Instant {
        let rested = now.saturating_duration_since(self.due).as_millis() / INTERVAL.as_millis();
        if rested > 0 {
            let rested = u32::try_from(rested).unwrap_or(BURST);
            self.in_hand = self.in_hand.saturating_add(rested).min(BURST);
            self.due = now;
        }
        if let Some(left) = self.in_hand.checked_sub(1) {
            self.in_hand = left;
            return now;
        }
        self.due = self.due.max(now) + INTERVAL;
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn taken(pace: &Pace, turns: u32) -> Duration {
        let began = Instant::now();
        for _ in 0..turns {
            pace.turn().await;
        }
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn n18_a_loop_of_attempts_is_slowed_and_a_rest_gives_turns_back() {
        let pace = Pace::new();
        assert_eq!(taken(&pace, BURST).await, Duration::ZERO);
        assert_eq!(taken(&pace, 100).await, 100 * INTERVAL);
        tokio::time::advance(10 * INTERVAL).await;
        assert_eq!(taken(&pace, 10).await, Duration::ZERO);
        assert!(taken(&pace, 1).await >= INTERVAL);
    }
}
