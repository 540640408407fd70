//! The clocks of a task while it waits for a person, and what its end means.

use std::time::Instant;

use sandyard_protocol::{EndReason, Exit};
use serde_json::json;

use super::{HANDSHAKE, Session};
use crate::audit::{Actor, Entry, Kind};
use crate::job::JobRow;
use crate::job::JobState;
use crate::lifecycle::following::{SharedMachine, running_backstop, time_left, waiting_backstop};
use crate::lifecycle::outcome::{Circumstances, Outcome};
use crate::lifecycle::waiting::Silence;
use crate::store::{Said, StoreError};

/// What the guest knows of its job's clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clocks {
    /// Nothing over this link.
    Untold,
    /// They run.
    Run,
    /// They stand.
    Stand,
}

impl Session<'_> {
    /// Stops the clocks of a job that waits and lets those of one that goes on run, here and in the guest.
    pub(super) async fn hold_clocks(&mut self, machine: &SharedMachine) {
        let Some(agent) = &self.task.agent else { return };
        let wanted = match self.row.state {
            JobState::Waiting => Clocks::Stand,
            JobState::Running => Clocks::Run,
            _ => return,
        };
        let never_stood = self.row.task.as_ref().is_none_or(|task| task.waited_ms == 0);
        if self.clocks == wanted || self.end_asked {
            return;
        }
        let was = std::mem::replace(&mut self.clocks, wanted);
        if wanted == Clocks::Run && was == Clocks::Untold && never_stood {
            return;
        }
        *self.backstop = match (wanted, agent.patience().until(self.row)) {
            (Clocks::Stand, Some(until)) => waiting_backstop(until, agent.patience().seconds()),
            _ => running_backstop(self.row),
        };
        let left = time_left(self.row);
        let told = async {
            match wanted {
                Clocks::Stand => machine.pause_job().await,
                Clocks::Run | Clocks::Untold => machine.resume_job(left).await,
            }
        };
        let told = tokio::time::timeout(HANDSHAKE, told).await;
        if !matches!(told, Ok(Ok(_))) {
            tracing::warn!(job = %self.row.id, ?wanted, "the guest did not set its clocks; the host's count");
        }
    }

    /// When the present question has waited long enough.
    pub(super) fn question_until(&self) -> Option<Instant> {
        self.task.agent.as_ref()?.patience().until(self.row)
    }

    /// Nobody answered in time.
    pub(super) async fn unanswered(&mut self, machine: &SharedMachine) -> Result<(), StoreError> {
        let Some(agent) = &self.task.agent else { return Ok(()) };
        let seconds = agent.patience().seconds();
        let entry = Entry::new(Actor::Host, Kind::Reply, json!({ "by": "host", "waited_s": seconds }));
        if let Silence::Say(said) = agent.patience().silence(self.row)
            && let Said::Kept(fresh) = self.task.context.store.say(&self.row.id, said, entry).await?
        {
            *self.row = *fresh;
            self.hold_clocks(machine).await;
            return Ok(());
        }
        self.end_asked = true;
        let backstop = self.task.end_backstop(Outcome::unanswered(seconds));
        *self.backstop = self.backstop.clone().min(backstop);
        let end = machine.end_job(EndReason::Cancelled, self.task.context.config.end_grace);
        if !matches!(tokio::time::timeout(HANDSHAKE, end).await, Ok(Ok(_))) {
            tracing::warn!(job = %self.row.id, "the guest did not take the request to end; the backstop will");
        }
        Ok(())
    }

    /// What the end of the job's process means. A task says in its journal, up to the latest row, what it came to.
    pub(super) fn outcome(&self, exit: Exit, around: Circumstances<'_>, latest: &JobRow) -> Outcome {
        let (Some(agent), Some(task)) = (&self.task.agent, &latest.task) else {
            return Outcome::of(exit, around);
        };
        // Nobody but us asks for an end that no client asked for.
        if exit.reason == EndReason::Cancelled && !latest.cancel_requested {
            return Outcome::unanswered(agent.patience().seconds());
        }
        Outcome::of_task(exit, around, task)
    }
}
