//! The delays before a dead keeper is restarted: none for the first death, longer ones after, and an end after too many.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::limits::{KEEPER_BACKOFF, KEEPER_RESTARTS, KEEPER_WINDOW};

#[derive(Debug, Default)]
pub(super) struct Restarts {
    deaths: VecDeque<Instant>,
}

impl Restarts {
    /// Notes a death. Returns the delay before the restart, or `None` if there were too many.
    pub(super) fn after_death(&mut self, now: Instant) -> Option<Duration> {
        self.deaths.push_back(now);
        // Old deaths don't count: a keeper that dies once an hour for a week is still worth a restart.
        while self.deaths.front().is_some_and(|&death| now.duration_since(death) > KEEPER_WINDOW) {
            self.deaths.pop_front();
        }
        match self.deaths.len() {
            0 | 1 => Some(Duration::ZERO),
            count if count > KEEPER_RESTARTS => None,
            count => Some(KEEPER_BACKOFF * (1 << (count - 2).min(6))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_restart_is_immediate_and_later_ones_wait_longer() {
        let (mut restarts, now) = (Restarts::default(), Instant::now());
        assert_eq!(restarts.after_death(now), Some(Duration::ZERO));
        assert_eq!(restarts.after_death(now), Some(KEEPER_BACKOFF));
        assert_eq!(restarts.after_death(now), Some(KEEPER_BACKOFF * 2));
    }

    #[test]
    fn a_keeper_that_keeps_dying_is_given_up() {
        let (mut restarts, now) = (Restarts::default(), Instant::now());
        let answers: Vec<_> = (0..=KEEPER_RESTARTS).map(|_| restarts.after_death(now)).collect();
        assert!(answers[..KEEPER_RESTARTS].iter().all(Option::is_some));
        assert_eq!(answers[KEEPER_RESTARTS], None);
    }

    #[test]
    fn old_deaths_are_forgotten() {
        let (mut restarts, now) = (Restarts::default(), Instant::now());
        for _ in 0..KEEPER_RESTARTS {
            restarts.after_death(now);
        }
        assert_eq!(restarts.after_death(now + KEEPER_WINDOW * 2), Some(Duration::ZERO));
    }
}
