//! The closed set of changes that can happen to a job.

use bytes::Bytes;
use sandyard_protocol::{JournalEntry, OutputStream};
use sandyard_sandbox::driver::{ImageDigest, Isolation, SandboxId, Usage};

use sandyard_api::{FrameEvent, JobFailure};

use super::event::StoredEvent;
use super::row::{ArtifactRow, ExplanationRow};
use super::sandbox_row::SandboxRow;
use super::state::{JobState, SandboxState};
use super::task_row::{ModelWaitRow, SpentRow};
use crate::audit::AuditEntry;

/// One thing that happens to a job. A batch of them is one commit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change {
    /// To another state, by the table of legal moves; leaves a `state` event.
    Move { to: JobState, reason: Option<String> },
    /// Another reason in the same state.
    Reason(Option<String>),
    /// The driver that runs it, and the isolation that it gives.
    Isolation { driver: String, isolation: Isolation, reason: Option<String> },
    /// The job gets this sandbox, which is not made yet; its row is written in the same commit. A sandbox that the job still
    /// has is left to be stopped. `purpose` says whether the job's process is to run in the new one.
    NewSandbox { sandbox: Box<SandboxRow>, purpose: Purpose },
    /// The machine of the job's sandbox is made from this image.
    SandboxImage(ImageDigest),
    /// The driver has stopped this sandbox of the job: its row goes.
    SandboxStopped(SandboxId),
    /// True once its process may have begun.
    Begun(bool),
    /// The state of its machine.
    Sandbox(SandboxState),
    /// Events of the guest up to this one are in this batch or an earlier one.
    GuestSequence(u64),
    /// Output; leaves an event with its place.
    Output(ChunkRow),
    /// Chunks of the middle, from the first to before the second, are dropped; leaves a `truncated` event the first time.
    Dropped { stream: OutputStream, first: u64, end: u64, bytes: u64 },
    /// The end of its process, and the terminal state that the job will reach.
    Ended { outcome: JobState, exit_code: Option<i32>, failure: Option<JobFailure> },
    /// Usage of the machine.
    Usage(Usage),
    /// More bytes went through the egress gateway.
    EgressBytes(u64),
    /// Total spending on models; never falls.
    Spent(SpentRow),
    /// A task waits for its model, or no longer; leaves a `state` event with the reason.
    ModelWait(Option<ModelWaitRow>),
    /// The address of a model that gave no answer; `None` once one came.
    ModelAddress(Option<String>),
    /// The job may run for this long in total. Never shortens it.
    TimeLimit { timeout_s: u64 },
    /// The next entry of a task's journal, with all that follows from it: the question, the state, the summary, events.
    Journal(Box<JournalEntry>),
    /// The desktop changed. The blob of its picture is stored; `bytes` is 0 if it was recorded before.
    Frame { frame: FrameEvent, bytes: u64 },
    /// The artifact is in place.
    Artifact(ArtifactRow),
    /// The result was explained.
    Explained(ExplanationRow),
    /// An entry of its audit.
    Audit(AuditEntry),
    /// An event that no other change leaves.
    Event(StoredEvent),
    /// Nothing is left to do.
    Closed,
}

/// The purpose of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To run the job.
    Run,
    /// To take the workspace out, after the machine that ran the job died.
    Rescue,
}

/// A run of output, immutable once committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChunkRow {
    pub(crate) stream: OutputStream,
    pub(crate) number: u64,
    /// Of its first byte in the stream.
    pub(crate) offset: u64,
    pub(crate) length: u64,
    /// Small ones are kept here, larger ones in a file of that number.
    pub(crate) inline: Option<Bytes>,
}
