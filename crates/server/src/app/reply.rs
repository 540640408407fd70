//! Reply: a message of a person to a task, whether it asked or not.

use sandyard_protocol::{JournalEntry, Speaker, TaskBudget};

use super::audit::entry;
use super::{AppError, ErrorCode, JobAccess, Yard};
use crate::audit::{AuditFacts, ReplyFacts, digest};
use crate::auth::AccessScope;
use crate::job::JobId;
use crate::job::JobState;
use crate::store::Said;

impl Yard {
    /// Answers a task that waits, or sends a message to a running one, which reads it before its next step. May change the
    /// task's budget: members that are not given stay as they are.
    pub async fn reply(
        &self,
        job: &JobAccess,
        text: String,
        budget: Option<TaskBudget>,
    ) -> Result<(), AppError> {
        job.require(AccessScope::WriteJobs)?;
        let id = job.id();
        let budget = match budget {
            Some(change) => Some(merged(self.budget(id).await?, change)),
            None => None,
        };
        let entry = entry(AuditFacts::Reply(ReplyFacts::Person {
            bytes: text.len(),
            sha256: digest(text.as_bytes()),
            budget: budget.is_some(),
            caller: job.caller().facts(),
        }));
        let said = JournalEntry::Said { text, by: Speaker::Person, budget };
        match self.context.store.say(id, Box::new(said), entry).await? {
            Said::Kept(_) => Ok(()),
            Said::Unknown => Err(AppError::unknown_job()),
            Said::Deaf(row) => {
                let message = match (&row.task, row.state) {
                    (None, _) => format!("a job of kind `{}` takes no messages", row.kind.as_str()),
                    (Some(_), JobState::Running | JobState::Waiting) => {
                        "the job ends, or its journal is full".to_owned()
                    }
                    (Some(_), state) => format!("the job is {} and does not listen", state.as_str()),
                };
                Err(AppError::new(ErrorCode::NotWaiting, message)
                    .hint("a task takes messages while it runs or waits"))
            }
        }
    }

    /// The present budget of a task.
    async fn budget(&self, id: &JobId) -> Result<TaskBudget, AppError> {
        let row = self.row(id).await?;
        if let Some(budget) = row.task.and_then(|task| task.budget) {
            return Ok(budget);
        }
        let request = self.context.store.request(id).await?.ok_or_else(AppError::unknown_job)?;
        Ok(request.job.task.budget)
    }
}

fn merged(now: TaskBudget, change: TaskBudget) -> TaskBudget {
    TaskBudget {
        steps: change.steps.or(now.steps),
        tokens: change.tokens.or(now.tokens),
        usd: change.usd.or(now.usd),
        on_breach: now.on_breach,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_named_stays() {
        let now = TaskBudget { steps: Some(1), usd: Some(2.0), ..TaskBudget::default() };
        let change = TaskBudget { steps: Some(5), tokens: Some(7), ..TaskBudget::default() };
        let wanted = TaskBudget { steps: Some(5), tokens: Some(7), usd: Some(2.0), ..TaskBudget::default() };
        assert_eq!(merged(now, change), wanted);
    }
}
