//! The probe of one driver: asks it in the background, by one task at a time, whether it can start sandboxes, and keeps the answer.
//!
//! A good answer stays valid for long, because a failed start reveals more than another probe. A bad answer is checked again
//! soon, since somebody may have fixed the cause, but less and less often, because each probe may boot a whole machine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sandyard_sandbox::driver::{Availability, Driver, DriverVerdict};
use tokio::sync::{Notify, watch};

use super::panics::catch_panic;

/// Longest time of a probe: a virtual machine without hardware acceleration, whose disks must be made first.
const PROBE_TIMEOUT: Duration = Duration::from_secs(600);
/// Validity of a good answer.
const USABLE_TTL: Duration = Duration::from_secs(600);
/// Validity of an answer without a trial, for want of an image, which may arrive at any moment.
const UNTRIED_TTL: Duration = Duration::from_secs(1);
/// Validity of the first bad answer, doubled with each further one.
const MISSING_TTL: Duration = Duration::from_secs(15);
/// Longest validity of a bad answer.
const MAX_MISSING_TTL: Duration = Duration::from_secs(600);
/// Duration of a probe that boots nothing.
const CHEAP_PROBE: Duration = Duration::from_secs(1);
/// Shortest time between two probes of a missing driver, even if there is no other driver.
const MIN_RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// A driver and its last answer.
pub(crate) struct DriverProbe {
    pub(crate) driver: Arc<dyn Driver>,
    state: watch::Sender<ProbeState>,
    /// Wakes those who wait for an answer of any driver.
    answered: Arc<Notify>,
}

/// The state of a probe.
#[derive(Debug, Clone, Default)]
pub(crate) struct ProbeState {
    /// The last answer; none until the driver was probed, or if the answer is in doubt.
    pub(crate) answer: Option<Availability>,
    /// True while a probe runs.
    pub(crate) trying: bool,
    at: Option<Instant>,
    /// Duration of the last probe.
    took: Duration,
    failures: u32,
    missing_since: Option<Instant>,
}

impl DriverProbe {
    pub(crate) fn new(driver: Arc<dyn Driver>, answered: Arc<Notify>) -> Arc<Self> {
        Arc::new(Self { driver, state: watch::Sender::new(ProbeState::default()), answered })
    }

    /// Returns a copy of the state.
    pub(crate) fn state(&self) -> ProbeState {
        self.state.borrow().clone()
    }

    /// Starts a probe, unless one runs already.
    pub(crate) fn start(self: &Arc<Self>) {
        // Test and set in one step: two callers must not start two probes, each of which may boot a machine.
        let begins = self.state.send_if_modified(|state| !std::mem::replace(&mut state.trying, true));
        if !begins {
            return;
        }
        let probe = Arc::clone(self);
        tokio::spawn(async move {
            let began = Instant::now();
            let tried = tokio::time::timeout(PROBE_TIMEOUT, catch_panic(probe.driver.availability())).await;
            let late = |_| format!("no sandbox started within {} s", PROBE_TIMEOUT.as_secs());
            let answer = tried.map_err(late).flatten();
            let answer =
                answer.unwrap_or_else(|detail| Availability::missing(detail, "look at the server's log"));
            tracing::info!(driver = probe.driver.name(), verdict = ?answer.verdict, detail = answer.detail, "driver probed");
            probe.state.send_modify(|state| {
                state.took = began.elapsed();
                state.answered(answer, Instant::now());
            });
            probe.answered.notify_one();
        });
    }

    /// Starts a probe if the last answer is no longer valid.
    pub(crate) fn refresh(self: &Arc<Self>) {
        let expired = self.state.borrow().is_expired(Instant::now());
        if expired {
            self.start();
        }
    }

    /// Starts a probe unless one runs, and waits for the answer.
    pub(crate) async fn probe_now(self: &Arc<Self>) {
        let mut answers = self.state.subscribe();
        self.start();
        // Can't fail: the sender lives as long as `self`.
        let _ = answers.wait_for(|state| !state.trying).await;
    }

    /// Drops the answer, because a start failed in a way that puts the driver in doubt.
    pub(crate) fn doubt(&self) {
        self.state.send_modify(|state| state.answer = None);
    }
}

impl ProbeState {
    fn answered(&mut self, answer: Availability, now: Instant) {
        if answer.may_start() {
            (self.failures, self.missing_since) = (0, None);
        } else {
            self.failures = self.failures.saturating_add(1);
            self.missing_since = self.missing_since.or(Some(now));
        }
        (self.answer, self.at, self.trying) = (Some(answer), Some(now), false);
    }

    /// True if the answer is no longer valid.
    fn is_expired(&self, now: Instant) -> bool {
        let ttl = match self.answer.as_ref().map(|answer| answer.verdict) {
            None => return true,
            Some(DriverVerdict::Usable) => USABLE_TTL,
            Some(DriverVerdict::Untried) => UNTRIED_TTL,
            Some(DriverVerdict::Missing) => {
                let doublings = 1 << self.failures.saturating_sub(1).min(10);
                MISSING_TTL.saturating_mul(doublings).min(MAX_MISSING_TTL)
            }
        };
        self.is_older_than(ttl, now)
    }

    /// True if a caller without any other driver should probe this one again.
    pub(crate) fn is_worth_another_try(&self, now: Instant) -> bool {
        self.answer.as_ref().is_none_or(|answer| !answer.may_start())
            && self.is_older_than(MIN_RETRY_INTERVAL, now)
    }

    /// True if a caller who asks about this driver should wait for a new answer: there is none, or a bad one that costs little
    /// to check again, since somebody may have installed what was missing.
    pub(crate) fn is_worth_asking(&self, now: Instant) -> bool {
        let is_missing = self.answer.as_ref().is_none_or(|answer| answer.verdict == DriverVerdict::Missing);
        is_missing
            && (self.answer.is_none() || self.took <= CHEAP_PROBE)
            && self.is_older_than(MIN_RETRY_INTERVAL, now)
    }

    /// Returns how long the driver has been missing.
    pub(crate) fn missing_for(&self, now: Instant) -> Duration {
        self.missing_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    fn is_older_than(&self, age: Duration, now: Instant) -> bool {
        self.at.is_none_or(|at| now.saturating_duration_since(at) >= age)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_doubted_sooner_than_successes_and_ever_less() {
        let start = Instant::now();
        let mut state = ProbeState::default();
        assert!(state.is_expired(start));
        state.answered(Availability::usable(""), start);
        assert!(!state.is_expired(start + Duration::from_secs(599)));
        assert!(state.is_expired(start + Duration::from_secs(600)));
        state.answered(Availability::missing("", ""), start);
        assert!(!state.is_expired(start + Duration::from_secs(14)));
        assert!(state.is_expired(start + Duration::from_secs(15)));
        assert!(state.is_worth_another_try(start + Duration::from_secs(5)));
        state.answered(Availability::missing("", ""), start);
        assert!(!state.is_expired(start + Duration::from_secs(29)));
        assert!(state.is_expired(start + Duration::from_secs(30)));
        (0..40).for_each(|_| state.answered(Availability::missing("", ""), start));
        assert!(!state.is_expired(start + Duration::from_secs(599)));
        assert!(state.is_expired(start + Duration::from_secs(600)));
        assert_eq!(state.missing_for(start + Duration::from_secs(9)), Duration::from_secs(9));
        state.answered(Availability::untried(""), start);
        assert_eq!(state.missing_for(start + Duration::from_secs(9)), Duration::ZERO);
    }

    #[test]
    fn who_asks_waits_for_a_new_answer_only_if_it_is_cheap_and_may_be_another() {
        let (start, later) = (Instant::now(), Instant::now() + Duration::from_secs(60));
        let mut state = ProbeState::default();
        assert!(state.is_worth_asking(start));
        state.answered(Availability::missing("not installed", ""), start);
        assert!(!state.is_worth_asking(start + Duration::from_secs(4)));
        assert!(state.is_worth_asking(start + Duration::from_secs(5)));
        state.took = Duration::from_secs(20);
        assert!(!state.is_worth_asking(later), "a machine is not booted for every look");
        state.took = Duration::ZERO;
        state.answered(Availability::usable(""), start);
        assert!(!state.is_worth_asking(later));
    }
}
