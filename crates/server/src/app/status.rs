//! Status: the row of a job for its clients: at once, after a change, or as a list.

use std::sync::Arc;
use std::time::Duration;

use sandyard_protocol::OutputStream;

use super::access::{owner_of, require};
use super::model::JobPage;
use super::{AppError, ErrorCode, JobAccess, Yard};
use super::{FullJobStatus, IsolationStatus, JobFilter, JobState, JobWait, KnownStatus};
use crate::auth::{AccessScope, Caller, may};
use crate::gateways::model::Money;
use crate::job::JobId;
use crate::job::JobRow;
use crate::output;
use crate::yard::YardContext;

/// Content of a status: with or without the tails of the output, which cost a second lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WithOutput {
    /// Up to 64 KiB of each stream.
    Tails,
    /// Empty tails, without a read of the output.
    Without,
}

/// The change that a waiting reader of a status wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AwaitedChange {
    /// The next change of state.
    State,
    /// The end of the job.
    End,
}

/// Largest number of jobs on one page.
const MAX_PAGE_JOBS: usize = 1000;

impl Yard {
    /// The job as it is now; with more output than asked for if that is cached.
    pub async fn status(&self, job: &JobAccess, output: WithOutput) -> Result<Arc<KnownStatus>, AppError> {
        let id = job.id();
        if let Some(status) = self.context.ended.get(id)
            && self.context.store.is_current(id, status.revision).await?
        {
            return Ok(status);
        }
        // Before the row is read: `keep` then notices a deletion that came in between.
        let before = self.context.ended.before();
        let row = self.row(id).await?;
        let is_over = !row.open;
        self.context.refresh_usage(&row).await;
        let status = Arc::new(KnownStatus::from(self.describe(row, output).await?));
        if is_over && output == WithOutput::Tails {
            self.context.ended.keep(before, &status);
        }
        Ok(status)
    }

    /// Waits until the awaited change has come, the job has ended, or the time is up, and returns its status then.
    pub async fn status_after_change(
        &self,
        job: &JobAccess,
        output: WithOutput,
        awaited: AwaitedChange,
        wait: Duration,
    ) -> Result<Arc<KnownStatus>, AppError> {
        let id = job.id();
        // Before the first read: a change in between wakes the watch.
        let mut watch = self.context.store.watch(id);
        let first = self.row(id).await?;
        let changed = async {
            let mut row = first.clone();
            let unchanged = |row: &JobRow| awaited == AwaitedChange::End || row.state == first.state;
            while unchanged(&row) && !row.state.is_terminal() {
                watch.changed().await;
                row = self.row(id).await?;
            }
            Ok::<_, AppError>(row)
        };
        let row = match tokio::time::timeout(wait, changed).await {
            Ok(row) => row?,
            Err(_) => self.row(id).await?,
        };
        self.context.refresh_usage(&row).await;
        Ok(Arc::new(self.describe(row, output).await?.into()))
    }

    /// A page of the caller's jobs, newest first. An unknown cursor is an error.
    pub async fn list(
        &self,
        caller: &Caller,
        filter: &JobFilter,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<JobPage, AppError> {
        require(caller, AccessScope::ReadJobs)?;
        let before = match cursor {
            Some(text) => Some(text.parse().map_err(|_| {
                AppError::new(ErrorCode::InvalidCursor, "the cursor is not one that a list gave")
            })?),
            None => None,
        };
        let limit = limit.clamp(1, MAX_PAGE_JOBS);
        let mut rows = self.context.store.list(filter, before, limit + 1).await?;
        let more = rows.len() > limit;
        rows.truncate(limit);
        let cursor = rows.last().filter(|_| more).map(|row| row.number.to_string());
        // The cursor counts all rows, so that a page without a row of the caller still leads on.
        rows.retain(|row| may(caller, &owner_of(row), AccessScope::ReadJobs).is_ok());
        let mut jobs = Vec::with_capacity(rows.len());
        for row in rows {
            let mut job = self.describe(row, WithOutput::Without).await?;
            job.brief = Arc::new(job.brief.in_list());
            jobs.push(job);
        }
        Ok(JobPage { jobs, cursor })
    }

    /// The row of a job, unless it is being deleted. Use cases come here with a [`JobAccess`].
    pub(super) async fn row(&self, id: &JobId) -> Result<JobRow, AppError> {
        self.context.store.job(id).await?.ok_or_else(AppError::unknown_job)
    }

    pub(super) async fn describe(&self, row: JobRow, output: WithOutput) -> Result<FullJobStatus, AppError> {
        let (mut stdout_tail, mut stderr_tail) = (String::new(), String::new());
        if output == WithOutput::Tails {
            let (store, blobs) = (self.context.store.as_ref(), self.context.blobs.as_ref());
            stdout_tail = output::tail(store, blobs, &row, OutputStream::Stdout).await?;
            stderr_tail = output::tail(store, blobs, &row, OutputStream::Stderr).await?;
        }
        let usage = row.usage.or_else(|| self.context.usages.last(&row.id));
        let waiting_for = self.waiting_for(&row);
        let sandbox_until_ms = self.context.kept_until_ms(&row);
        let audit = crate::job::audit_head(&row);
        let brief = self.brief(&row.id).await?;
        // A wait for the model is counted down at every look.
        let model_wait = row.task.as_ref().and_then(|task| task.model_wait.as_ref());
        let model_wait = model_wait.map(|wait| wait.words(self.context.clock.unix_ms()));
        let age_ms = i64::try_from(self.context.config.retention.age.as_millis()).unwrap_or(i64::MAX);
        let task = row.task.unwrap_or_default();
        Ok(FullJobStatus {
            isolation: IsolationStatus {
                requested: row.requested_isolation,
                effective: row.driver,
                level: row.level,
                runtime: row.runtime,
                reason: row.isolation_reason,
            },
            expires_at_ms: row.finished_ms.map(|finished| finished.saturating_add(age_ms)),
            explanation: row.explanation.as_ref().map(|explanation| explanation.summary.clone()),
            recorded_moments: row.recording.moments,
            recorded_bytes: row.recording.bytes,
            download: row.state.is_terminal(),
            truncated: row.stdout.dropped + row.stderr.dropped > 0,
            stdout_bytes: row.stdout.bytes,
            stderr_bytes: row.stderr.bytes,
            stdout_tail,
            stderr_tail,
            id: row.id,
            name: row.name,
            kind: row.kind,
            state: row.state,
            sandbox: row.sandbox,
            reason: model_wait.or(row.reason),
            waiting_for,
            sandbox_until_ms,
            created_at_ms: row.created_ms,
            started_at_ms: row.started_ms,
            finished_at_ms: row.finished_ms,
            exit_code: row.exit_code,
            error: row.failure,
            usage,
            limits: row.limits,
            brief,
            egress_bytes: row.egress_bytes,
            question: task.question.map(|question| question.text),
            summary: task.summary,
            tokens_in: task.spent.tokens_in,
            tokens_out: task.spent.tokens_out,
            usd: Money::from_units(task.spent.money).usd(),
            keep: row.keep,
            audit,
            revision: row.revision,
        })
    }

    /// What a queued job waits for: as the loop found in its last round, or else as the host is now.
    fn waiting_for(&self, row: &JobRow) -> Option<JobWait> {
        if row.state != JobState::Queued {
            return None;
        }
        let short = || self.context.admission.shortage(YardContext::least_room(&row.limits.machine));
        let found = self.context.line.wait_of(&row.id).or_else(|| short().map(JobWait::Room));
        Some(found.unwrap_or(JobWait::Turn(None)))
    }
}
