//! The way to a job: a caller, an id and a scope go in, and a [`JobAccess`] comes out.
//!
//! Every use case about one job takes a [`JobAccess`], and only [`Yard::job`] makes one. So the machine, the events, the
//! logs, the files, the tickets and the ports of a job can't be reached without the check of [`may`].

use std::sync::Arc;
use std::time::Duration;

use sandyard_api::{ErrorCode, JobIdPrefix};

use super::{AppError, Yard};
use crate::auth::{AccessDenied, AccessScope, Caller, OwnerAccount, may};
use crate::job::{JobId, JobRow};

/// Jobs that are looked at for a beginning of an id. Ids are random, so more than one is rare and this many is malice.
const MAX_CANDIDATES: usize = 16;
/// How long a call waits for a sandbox that is starting, unless the request says otherwise.
const DEFAULT_SANDBOX_WAIT: Duration = Duration::from_secs(30);

/// A job that a caller may use. The proof is as old as the request; a stream that outlives it is not checked again.
/// Clones share it, because handler, audit and streams of one request all hold it.
#[derive(Debug, Clone)]
pub struct JobAccess {
    admitted: Arc<AdmittedJob>,
    sandbox_wait: Duration,
}

#[derive(Debug)]
struct AdmittedJob {
    id: JobId,
    caller: Caller,
    owner: OwnerAccount,
}

impl JobAccess {
    /// Returns the id of the job.
    pub fn id(&self) -> &JobId {
        &self.admitted.id
    }

    /// The caller who may use it.
    pub fn caller(&self) -> &Caller {
        &self.admitted.caller
    }

    /// Rejects a use case that needs a scope the caller lacks.
    pub(super) fn require(&self, scope: AccessScope) -> Result<(), AppError> {
        may(&self.admitted.caller, &self.admitted.owner, scope).map_err(denied)
    }

    /// Returns the same access for a request that waits this long for a sandbox that is starting.
    #[must_use]
    pub fn with_sandbox_wait(self, sandbox_wait: Duration) -> Self {
        Self { sandbox_wait, ..self }
    }

    /// How long a call waits for a sandbox that is starting.
    pub(super) fn sandbox_wait(&self) -> Duration {
        self.sandbox_wait
    }
}

impl Yard {
    /// Returns access to the job that an id or the beginning of one means. A beginning must belong to one job alone, among those
    /// that the caller may know of.
    pub async fn job_named(
        &self,
        caller: &Caller,
        prefix: &JobIdPrefix,
        scope: AccessScope,
    ) -> Result<JobAccess, AppError> {
        if let Some(id) = prefix.whole() {
            return self.job(caller, &id, scope).await;
        }
        let mut found = Vec::new();
        for id in self.context.store.ids_beginning(prefix, MAX_CANDIDATES).await? {
            match self.job(caller, &id, scope).await {
                Ok(job) => found.push(job),
                Err(error) if error.code == ErrorCode::UnknownJob => {}
                Err(error) => return Err(error),
            }
        }
        if found.len() > 1 {
            return Err(ambiguous(prefix, &found));
        }
        found.pop().ok_or_else(AppError::unknown_job)
    }

    /// Returns access to the job with this id, if it exists and the caller may do to it what `scope` covers. A foreign job is as
    /// unknown as one that does not exist, so that ids can't be probed.
    pub async fn job(&self, caller: &Caller, id: &JobId, scope: AccessScope) -> Result<JobAccess, AppError> {
        let owner = match self.owners.0.get(id) {
            Some(owner) => owner,
            None => {
                let owner = owner_of(&self.row(id).await?);
                self.owners.0.insert(id.clone(), owner.clone());
                owner
            }
        };
        may(caller, &owner, scope).map_err(denied)?;
        let admitted = Arc::new(AdmittedJob { id: id.clone(), caller: caller.clone(), owner });
        Ok(JobAccess { admitted, sandbox_wait: DEFAULT_SANDBOX_WAIT })
    }
}

fn ambiguous(prefix: &JobIdPrefix, found: &[JobAccess]) -> AppError {
    let ids: Vec<&str> = found.iter().map(|job| job.id().as_str()).collect();
    let message = format!("`{prefix}` is the beginning of {} jobs: {}", ids.len(), ids.join(", "));
    AppError::new(ErrorCode::AmbiguousJob, message).hint("write more of the id")
}

/// The owner of a job. Rows have no owner yet, so every job is the operator's.
pub(super) fn owner_of(_: &JobRow) -> OwnerAccount {
    OwnerAccount::OPERATOR
}

/// Rejects a caller who lacks a scope, for use cases that are about no single job.
pub(super) fn require(caller: &Caller, scope: AccessScope) -> Result<(), AppError> {
    if caller.has(scope) { Ok(()) } else { Err(denied(AccessDenied::MissingScope)) }
}

fn denied(reason: AccessDenied) -> AppError {
    match reason {
        AccessDenied::NotOwner => AppError::unknown_job(),
        AccessDenied::MissingScope => AppError::missing_scope(),
    }
}
