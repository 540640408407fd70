//! The live machine of a job, for tools.

use std::sync::Arc;

use sandyard_sandbox::machine::Machine;

use super::{AppError, ErrorCode, JobAccess, Yard};
use crate::auth::AccessScope;

impl Yard {
    /// The live machine of a job; a conflict unless `sandbox` is `live`.
    pub fn machine(&self, job: &JobAccess) -> Result<Arc<Machine>, AppError> {
        job.require(AccessScope::UseSandbox)?;
        self.context.machines.get(job.id()).ok_or_else(|| {
            AppError::new(ErrorCode::SandboxNotLive, "the job's sandbox can't be reached now")
                .hint("tools need `sandbox: live` in the status; schedule with `keep` to use them after the end")
                .retry_after(1)
        })
    }
}
