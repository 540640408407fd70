//! A job that waits for a person: its clocks stand still, and the question has a timeout of its own.

use std::time::{Duration, Instant};

use sandyard_protocol::{JournalEntry, Speaker, WhyAsked};

use crate::clock::Clock;
use crate::job::{JobRow, LONGEST_WAITS_S, NewJob, OnSilence};

/// The timeout of a job's questions and its consequence, as scheduled.
#[derive(Debug, Clone, Copy)]
pub(super) struct QuestionTimeout {
    ask_timeout: Duration,
    on_silence: OnSilence,
}

/// The consequence of a question that nobody answered.
#[derive(Debug, PartialEq)]
pub(super) enum UnansweredAction {
    /// The job ends as timed out.
    End,
    /// The host adds this entry to the journal in the person's place.
    Say(Box<JournalEntry>),
}

impl QuestionTimeout {
    pub(super) fn of(job: &NewJob) -> Self {
        let ask_timeout = Duration::from_secs(job.task.ask_timeout_s.unwrap_or(LONGEST_WAITS_S));
        Self { ask_timeout, on_silence: job.task.on_silence }
    }

    /// Returns the deadline of the present question; `None` if there is none. All waits of a job together are bounded.
    pub(super) fn until(&self, row: &JobRow, clock: Clock) -> Option<Instant> {
        let task = row.task.as_ref()?;
        let question = task.question.as_ref()?;
        let asked = Duration::from_millis(u64::try_from(question.asked_ms).unwrap_or(0));
        // The lifetime of the machine has room for this total (`making`). Without it, a task could ask for ever.
        let in_all =
            Duration::from_secs(LONGEST_WAITS_S).saturating_sub(Duration::from_millis(task.waited_ms));
        let waited = clock.since_epoch().saturating_sub(asked);
        Some(Instant::now() + self.ask_timeout.min(in_all).saturating_sub(waited))
    }

    /// Returns the consequence of silence. A budget that is used up is never raised by it.
    pub(super) fn silence(&self, row: &JobRow) -> UnansweredAction {
        let why = row.task.as_ref().and_then(|task| task.question.as_ref()).map(|question| question.why);
        match (self.on_silence, why) {
            (OnSilence::GoOn, Some(WhyAsked::Ask | WhyAsked::Stuck)) => {
                let text =
                    "Nobody answered in time. Decide yourself as you think best, and go on.".to_owned();
                UnansweredAction::Say(Box::new(JournalEntry::Said { text, by: Speaker::Host, budget: None }))
            }
            // A question about the budget ends the job: silence must not spend more money.
            _ => UnansweredAction::End,
        }
    }

    /// Returns the timeout in seconds, for messages.
    pub(super) fn seconds(&self) -> u64 {
        self.ask_timeout.as_secs()
    }
}

/// Returns how long a job has waited for answers, the present wait included, at a time since the epoch.
pub(super) fn waited(row: &JobRow, now: Duration) -> Duration {
    let Some(task) = &row.task else { return Duration::ZERO };
    let asked = task.question.as_ref().and_then(|question| u64::try_from(question.asked_ms).ok());
    let present = asked.map(|asked| now.saturating_sub(Duration::from_millis(asked)));
    Duration::from_millis(task.waited_ms) + present.unwrap_or_default()
}

#[cfg(test)]
#[path = "question_timeout_tests.rs"]
mod tests;
