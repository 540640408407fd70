//! Delays before reconnecting: doubling, bounded, and random within each step so that many guests do not connect at once.

use std::time::Duration;

/// A delay that grows with every attempt.
#[derive(Debug, Clone)]
pub struct Backoff {
    first: Duration,
    most: Duration,
    next: Duration,
}

impl Backoff {
    /// Starts at `first` and never exceeds `most`.
    pub fn new(first: Duration, most: Duration) -> Self {
        Self { first, most, next: first }
    }

    /// Returns the next delay: between half of the current step and the whole step.
    pub fn next_wait(&mut self) -> Duration {
        let step = self.next;
        self.next = step.saturating_mul(2).min(self.most);
        let mut byte = [0];
        // Without randomness the delay is the whole step.
        let spread = if getrandom::fill(&mut byte).is_ok() { u32::from(byte[0]) } else { 255 };
        step / 2 + step / 510 * spread
    }

    /// Starts from the first delay again, after a success.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_bound_and_reset() {
        let mut backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(100));
        let waits: Vec<_> = (0..8).map(|_| backoff.next_wait()).collect();
        assert!(waits.iter().all(|wait| *wait <= Duration::from_millis(100)));
        assert!(waits[7] >= Duration::from_millis(50));
        backoff.reset();
        assert!(backoff.next_wait() <= Duration::from_millis(10));
    }
}
