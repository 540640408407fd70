//! The clocks of a task while it waits for a person, and the meaning of its end.

use std::time::Instant;

use sandyard_protocol::{EndReason, Exit};

use super::guest_clocks::GuestClocks;
use super::{HANDSHAKE_TIMEOUT, JobSession};
use crate::audit::{AuditActor, AuditEntry, AuditFacts, ReplyFacts};
use crate::job::JobRow;
use crate::job::JobState;
use crate::lifecycle::deadlines::{running_backstop, time_left, waiting_backstop};
use crate::lifecycle::linking::SharedMachine;
use crate::lifecycle::outcome::{EndCircumstances, JobOutcome};
use crate::lifecycle::question_timeout::UnansweredAction;
use crate::store::{Said, StoreError};

impl JobSession<'_> {
    /// Stops the clocks of a job that waits for an answer and starts them again when it goes on, here and in the guest.
    pub(super) async fn hold_clocks(&mut self, machine: &SharedMachine) {
        let Some(agent) = &self.owner.agent else { return };
        let wanted = match self.row.state {
            JobState::Waiting => GuestClocks::Stand,
            JobState::Running => GuestClocks::Run,
            _ => return,
        };
        let clock = self.owner.context.clock;
        let never_stood = self.row.task.as_ref().is_none_or(|task| task.waited_ms == 0);
        if self.clocks == wanted || self.end_asked {
            return;
        }
        let was = std::mem::replace(&mut self.clocks, wanted);
        if wanted == GuestClocks::Run && was == GuestClocks::Unset && never_stood {
            return;
        }
        // The host's deadline changes before the guest is asked: a guest that does not answer must not gain time.
        *self.backstop = match (wanted, agent.patience().until(self.row, clock)) {
            (GuestClocks::Stand, Some(until)) => waiting_backstop(until, agent.patience().seconds()),
            _ => running_backstop(self.row, clock),
        };
        let left = time_left(self.row, clock);
        let answered = async {
            match wanted {
                GuestClocks::Stand => machine.pause_job().await,
                GuestClocks::Run | GuestClocks::Unset => machine.resume_job(left).await,
            }
        };
        let answered = tokio::time::timeout(HANDSHAKE_TIMEOUT, answered).await;
        if !matches!(answered, Ok(Ok(_))) {
            tracing::warn!(job = %self.row.id, ?wanted, "the guest did not set its clocks; the host's count");
        }
    }

    /// Gives the guest and the host's own deadline the job's time limit, if it is another than they count by: somebody has
    /// extended it.
    pub(super) async fn keep_time(&mut self, machine: &SharedMachine) {
        let limit_s = self.row.limits.timeout_s;
        let known = self.timed_by_s.or(self.owner.asked_timeout_s);
        if self.row.state != JobState::Running || self.end_asked || known == Some(limit_s) {
            return;
        }
        self.timed_by_s = Some(limit_s);
        let clock = self.owner.context.clock;
        *self.backstop = running_backstop(self.row, clock);
        let left = time_left(self.row, clock);
        // A guest takes a new deadline only at the end of a pause.
        let set = async {
            machine.pause_job().await?;
            machine.resume_job(left).await
        };
        if !matches!(tokio::time::timeout(HANDSHAKE_TIMEOUT, set).await, Ok(Ok(_))) {
            // Asked again over the next link.
            tracing::warn!(job = %self.row.id, limit_s, "the guest did not take the new time limit");
        }
    }

    /// Returns the deadline of the present question.
    pub(super) fn question_until(&self) -> Option<Instant> {
        self.owner.agent.as_ref()?.patience().until(self.row, self.owner.context.clock)
    }

    /// Handles a question that nobody answered in time: the host answers in the person's place, or the job ends.
    pub(super) async fn unanswered(&mut self, machine: &SharedMachine) -> Result<(), StoreError> {
        let Some(agent) = &self.owner.agent else { return Ok(()) };
        let seconds = agent.patience().seconds();
        let facts = AuditFacts::Reply(ReplyFacts::Host { by: "host", waited_s: seconds });
        let entry = AuditEntry::new(AuditActor::Host, facts);
        if let UnansweredAction::Say(said) = agent.patience().silence(self.row)
            // Only a stored answer counts. If the journal is full or the job was cancelled, nothing is stored and the job ends
            // below.
            && let Said::Kept(fresh) = self.owner.context.store.say(&self.row.id, said, entry).await?
        {
            *self.row = *fresh;
            self.hold_clocks(machine).await;
            return Ok(());
        }
        // Set before the guest is asked, so that the session asks once over each link.
        self.end_asked = true;
        let backstop = self.owner.end_backstop(JobOutcome::unanswered(seconds));
        *self.backstop = self.backstop.clone().min(backstop);
        let end = machine.end_job(EndReason::Cancelled, self.owner.context.config.end_grace);
        if !matches!(tokio::time::timeout(HANDSHAKE_TIMEOUT, end).await, Ok(Ok(_))) {
            tracing::warn!(job = %self.row.id, "the guest did not take the request to end; the backstop will");
        }
        Ok(())
    }

    /// Returns the outcome of the job for the end of its process. A task's own result is in its journal, up to the latest row.
    pub(super) fn outcome(&self, exit: Exit, around: EndCircumstances<'_>, latest: &JobRow) -> JobOutcome {
        let (Some(agent), Some(task)) = (&self.owner.agent, &latest.task) else {
            return JobOutcome::of(exit, around);
        };
        // The host itself asked for this end, because nobody answered.
        if exit.reason == EndReason::Cancelled && !latest.cancel_requested {
            return JobOutcome::unanswered(agent.patience().seconds());
        }
        JobOutcome::of_task(exit, around, task)
    }
}
