//! One driver and what is known of it. It is asked in the background, by one task at a time, and its answer is kept.
//!
//! A good answer is believed for long: a start that fails says more than another try. A bad one is doubted soon, since somebody
//! may have mended what was missing, but less and less often, because each try may cost the start of a whole machine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sandyard_sandbox::driver::{Availability, Driver, Verdict};
use tokio::sync::{Notify, watch};

use super::caught::caught;

/// How long a driver may take to try a sandbox: a virtual machine without hardware help, with its disks to be made first.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long a usable driver is believed.
const USABLE: Duration = Duration::from_secs(600);
/// An image may be there any moment.
const UNTRIED: Duration = Duration::from_secs(1);
/// How long the first failure is believed; each further one twice as long.
const MISSING: Duration = Duration::from_secs(15);
/// However often it failed.
const MISSING_AT_MOST: Duration = Duration::from_secs(600);
/// A failure is not doubted sooner, even if nothing else is there.
const MISSING_AT_LEAST: Duration = Duration::from_secs(5);

/// One driver.
pub(crate) struct Known {
    pub(crate) driver: Arc<dyn Driver>,
    report: watch::Sender<Report>,
    /// Wakes those who wait for answers of any driver.
    answered: Arc<Notify>,
}

/// What is known.
#[derive(Debug, Clone, Default)]
pub(crate) struct Report {
    /// The last answer.
    pub(crate) answer: Option<Availability>,
    /// Whether it is being asked now.
    pub(crate) trying: bool,
    at: Option<Instant>,
    failures: u32,
    missing_since: Option<Instant>,
}

impl Known {
    pub(crate) fn new(driver: Arc<dyn Driver>, answered: Arc<Notify>) -> Arc<Self> {
        Arc::new(Self { driver, report: watch::Sender::new(Report::default()), answered })
    }

    /// What is known now.
    pub(crate) fn report(&self) -> Report {
        self.report.borrow().clone()
    }

    /// Has the driver asked anew, unless it is being asked already.
    pub(crate) fn ask(self: &Arc<Self>) {
        let begins = self.report.send_if_modified(|report| !std::mem::replace(&mut report.trying, true));
        if !begins {
            return;
        }
        let known = Arc::clone(self);
        tokio::spawn(async move {
            let tried = tokio::time::timeout(PATIENCE, caught(known.driver.availability())).await;
            let late = |_| format!("no sandbox started within {} s", PATIENCE.as_secs());
            let answer = tried.map_err(late).flatten();
            let answer =
                answer.unwrap_or_else(|detail| Availability::missing(detail, "look at the server's log"));
            tracing::info!(driver = known.driver.name(), verdict = ?answer.verdict, detail = answer.detail, "tried");
            known.report.send_modify(|report| report.answered(answer, Instant::now()));
            known.answered.notify_one();
        });
    }

    /// Has the driver asked anew if its answer is not to be believed any more.
    pub(crate) fn ask_if_doubtful(self: &Arc<Self>) {
        let doubtful = self.report.borrow().is_doubtful(Instant::now());
        if doubtful {
            self.ask();
        }
    }

    /// Asks, and waits for the answer.
    pub(crate) async fn asked(self: &Arc<Self>) {
        let mut answers = self.report.subscribe();
        self.ask();
        // The sender lives as long as self.
        let _ = answers.wait_for(|report| !report.trying).await;
    }

    /// A start failed in a way that speaks against the driver.
    pub(crate) fn doubt(&self) {
        self.report.send_modify(|report| report.answer = None);
    }
}

impl Report {
    fn answered(&mut self, answer: Availability, now: Instant) {
        if answer.may_start() {
            (self.failures, self.missing_since) = (0, None);
        } else {
            self.failures = self.failures.saturating_add(1);
            self.missing_since = self.missing_since.or(Some(now));
        }
        (self.answer, self.at, self.trying) = (Some(answer), Some(now), false);
    }

    /// Whether it is time to ask again, in passing.
    fn is_doubtful(&self, now: Instant) -> bool {
        let believed = match self.answer.as_ref().map(|answer| answer.verdict) {
            None => return true,
            Some(Verdict::Usable) => USABLE,
            Some(Verdict::Untried) => UNTRIED,
            Some(Verdict::Missing) => {
                let doublings = 1 << self.failures.saturating_sub(1).min(10);
                MISSING.saturating_mul(doublings).min(MISSING_AT_MOST)
            }
        };
        self.is_older_than(believed, now)
    }

    /// Whether somebody who has no other driver should have it asked again.
    pub(crate) fn is_worth_another_try(&self, now: Instant) -> bool {
        self.answer.as_ref().is_none_or(|answer| !answer.may_start())
            && self.is_older_than(MISSING_AT_LEAST, now)
    }

    /// How long it has been missing.
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
        let mut report = Report::default();
        assert!(report.is_doubtful(start));
        report.answered(Availability::usable(""), start);
        assert!(!report.is_doubtful(start + Duration::from_secs(599)));
        assert!(report.is_doubtful(start + Duration::from_secs(600)));
        report.answered(Availability::missing("", ""), start);
        assert!(!report.is_doubtful(start + Duration::from_secs(14)));
        assert!(report.is_doubtful(start + Duration::from_secs(15)));
        assert!(report.is_worth_another_try(start + Duration::from_secs(5)));
        report.answered(Availability::missing("", ""), start);
        assert!(!report.is_doubtful(start + Duration::from_secs(29)));
        assert!(report.is_doubtful(start + Duration::from_secs(30)));
        (0..40).for_each(|_| report.answered(Availability::missing("", ""), start));
        assert!(!report.is_doubtful(start + Duration::from_secs(599)));
        assert!(report.is_doubtful(start + Duration::from_secs(600)));
        assert_eq!(report.missing_for(start + Duration::from_secs(9)), Duration::from_secs(9));
        report.answered(Availability::untried(""), start);
        assert_eq!(report.missing_for(start + Duration::from_secs(9)), Duration::ZERO);
    }
}
