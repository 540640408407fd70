//! Why a change is refused.

use sandyard_sandbox::driver::SandboxId;

use super::id::JobId;
use super::sandbox_phase::SandboxPhase;
use super::state::JobState;

/// A change that can't be applied to the row.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChangeError {
    /// The table of legal moves has no such move.
    #[error("job {job} can't go from {from:?} to {to:?}")]
    IllegalMove { job: JobId, from: JobState, to: JobState },
    /// The table of a sandbox's moves forbids it.
    #[error("sandbox {sandbox} can't go from {from:?} to {to:?}")]
    IllegalSandboxMove { sandbox: SandboxId, from: SandboxPhase, to: SandboxPhase },
    /// The output does not continue the stored output.
    #[error("output of job {job} at {offset} does not continue the stored output")]
    OutputGap { job: JobId, offset: u64 },
    /// The row lacks a part that the change needs.
    #[error("stored {what} can't be read")]
    Damaged { what: &'static str },
}
