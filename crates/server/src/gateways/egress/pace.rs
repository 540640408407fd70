//! Limits the rate of a job's attempts. Every attempt is stored for good, also a refused one, so an endless loop of attempts
//! would fill the host's disk. Beyond a burst each attempt waits for its turn.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Attempts without a wait. Installing a large project makes some hundreds.
const BURST_ATTEMPTS: u32 = 2000;
/// Time between two attempts after the burst. An hour of such attempts takes some 40 MB of records.
const ATTEMPT_INTERVAL: Duration = Duration::from_millis(100);

/// The rate limit of one job.
#[derive(Debug)]
pub(super) struct Pace(Mutex<PaceState>);

#[derive(Debug)]
struct PaceState {
    /// Time of the next attempt if none is available at once.
    due: Instant,
    /// Attempts that are available at once.
    in_hand: u32,
}

impl Pace {
    /// Begins with a whole burst.
    pub(super) fn new() -> Self {
        Self(Mutex::new(PaceState { due: Instant::now(), in_hand: BURST_ATTEMPTS }))
    }

    /// Waits for the caller's turn. Dropping the future uses the turn up.
    pub(super) async fn turn(&self) {
        let due = self.0.lock().take(Instant::now());
        tokio::time::sleep_until(due).await;
    }
}

impl PaceState {
    /// Takes a turn. Returns the time at which it comes.
    fn take(&mut self, now: Instant) -> Instant {
        let rested = now.saturating_duration_since(self.due).as_millis() / ATTEMPT_INTERVAL.as_millis();
        if rested > 0 {
            let rested = u32::try_from(rested).unwrap_or(BURST_ATTEMPTS);
            self.in_hand = self.in_hand.saturating_add(rested).min(BURST_ATTEMPTS);
            self.due = now;
        }
        if let Some(left) = self.in_hand.checked_sub(1) {
            self.in_hand = left;
            return now;
        }
        self.due = self.due.max(now) + ATTEMPT_INTERVAL;
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
        assert_eq!(taken(&pace, BURST_ATTEMPTS).await, Duration::ZERO);
        assert_eq!(taken(&pace, 100).await, 100 * ATTEMPT_INTERVAL);
        tokio::time::advance(10 * ATTEMPT_INTERVAL).await;
        assert_eq!(taken(&pace, 10).await, Duration::ZERO);
        assert!(taken(&pace, 1).await >= ATTEMPT_INTERVAL);
    }
}
