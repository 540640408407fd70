//! The job: its nouns, its states, the row that is the truth about it, and how a change changes that row.
//!
//! Pure: no store, no clock, no I/O. Every store applies the same changes with `apply`.

pub(crate) mod apply;
mod audit_row;
mod brief;
mod change;
mod change_error;
mod event;
mod filter;
mod id;
mod kept_text;
mod limits;
mod request;
mod row;
#[cfg(test)]
pub(crate) mod samples;
mod sandbox_phase;
mod sandbox_row;
pub(crate) mod state;
mod status;
mod task_row;
mod waiting;

pub(crate) use audit_row::{AuditRow, NotedEntries, NotedEntry};
pub use brief::JobBrief;
pub(crate) use change::{Change, ChunkRow, Purpose};
pub(crate) use event::{EventRow, ModelAnswerEvent, StoredEvent, StoredModelEvent};
pub use filter::JobFilter;
pub(crate) use id::random_sandbox_id;
pub use id::{JobId, RandomError, random as random_id};
pub(crate) use kept_text::{NewText, NewTextBody, StoredText, TextRow};
pub use limits::{EffectiveLimits, LONGEST_WAITS_S};
pub use request::{Floor, GitSource, InputFile, JobKind, NewJob, OnSilence, RequestedLimits, TaskOptions};
pub(crate) use row::{ArtifactRow, ExplanationRow, JobFence, JobRow, RecordingRow, audit_head};
pub(crate) use sandbox_phase::SandboxPhase;
pub(crate) use sandbox_row::{LimitsBinding, SandboxRow};
pub use sandyard_api::{FailureCode, JobFailure};
pub use state::{JobState, SandboxState};
pub use status::{FullJobStatus, IsolationStatus, KnownStatus};
pub(crate) use task_row::{ModelWaitRow, OpenQuestion, OpenStep, SpentRow, TaskRow};
pub use waiting::{JobWait, RoomShortage};
