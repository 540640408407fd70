//! Applies changes to a row. Pure, so that every store behaves alike.
//!
//! `Applied` lists the rows that the store must write in the same commit. A rejected change leaves nothing behind, because the
//! store works on a copy of the row.

use sandyard_protocol::OutputStream;
use sandyard_sandbox::driver::{ImageDigest, SandboxId};

mod journal;

use super::audit_row::AuditRow;
use super::change::{Change, ChunkRow, EventRow, Purpose};
use super::event::StoredEvent;
use super::id::JobId;
use super::row::JobRow;
use super::sandbox_row::{SandboxPhase, SandboxRow};
use super::state::{JobState, SandboxState, allowed};
use super::task_row::ModelWaitRow;
use crate::audit::{AuditActor, AuditEntry, AuditFacts, AuditKind, AuditLine, StateFacts, cut};

/// Everything that a batch of changes adds beside the row.
#[derive(Debug, Default)]
pub(crate) struct Applied {
    pub(crate) events: Vec<EventRow>,
    pub(crate) chunks: Vec<ChunkRow>,
    /// Chunks to delete: stream, first, end.
    pub(crate) dropped: Vec<(OutputStream, u64, u64)>,
    pub(crate) journal: Vec<NewEntry>,
    pub(crate) audit: Vec<AuditLine>,
    /// Writes to rows of sandboxes, in order.
    pub(crate) sandboxes: Vec<SandboxWrite>,
}

impl Applied {
    /// Appends the additions of a later batch of the same commit.
    pub(crate) fn extend(&mut self, later: Self) {
        self.events.extend(later.events);
        self.chunks.extend(later.chunks);
        self.dropped.extend(later.dropped);
        self.journal.extend(later.journal);
        self.audit.extend(later.audit);
        self.sandboxes.extend(later.sandboxes);
    }
}

/// A write to the row of a sandbox.
#[derive(Debug)]
pub(crate) enum SandboxWrite {
    /// Inserts a row. Fails if the id exists: ids are never used twice.
    Insert(Box<SandboxRow>),
    /// Stores the image of the machine.
    Image { sandbox: SandboxId, image: ImageDigest },
    /// Stores the server that holds the sandbox now.
    Owner { sandbox: SandboxId, owner: String },
    /// Marks a sandbox that its job no longer needs and that nobody has stopped.
    Leave(SandboxId),
    /// Deletes the row of a sandbox that its driver has stopped.
    Remove(SandboxId),
}

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

/// Longest reason in the audit record of a state.
const MAX_REASON_BYTES: usize = 500;

/// A journal entry to be written.
#[derive(Debug, Clone)]
pub(crate) struct NewEntry {
    pub(crate) number: u64,
    pub(crate) kind: &'static str,
    pub(crate) at_ms: i64,
    pub(crate) incarnation: u32,
    /// The entry as JSON.
    pub(crate) text: String,
}

impl SandboxWrite {
    /// Returns the sandbox whose row is written.
    pub(crate) fn sandbox(&self) -> &SandboxId {
        match self {
            Self::Insert(row) => &row.id,
            Self::Image { sandbox, .. }
            | Self::Owner { sandbox, .. }
            | Self::Leave(sandbox)
            | Self::Remove(sandbox) => sandbox,
        }
    }
}

/// Applies all changes to the row, in order, or fails.
pub(crate) fn apply(row: &mut JobRow, changes: Vec<Change>, now_ms: i64) -> Result<Applied, ChangeError> {
    let mut applied = Applied::default();
    for change in changes {
        apply_one(row, change, now_ms, &mut applied)?;
    }
    row.revision += 1;
    Ok(applied)
}

fn apply_one(
    row: &mut JobRow,
    change: Change,
    now_ms: i64,
    applied: &mut Applied,
) -> Result<(), ChangeError> {
    match change {
        Change::Move { to, reason } => return move_to(row, to, reason, now_ms, applied),
        Change::Reason(reason) => row.reason = reason,
        Change::Isolation { driver, isolation, reason } => {
            row.driver = Some(driver);
            row.runtime = Some(isolation.runtime);
            row.level = Some(isolation.level);
            row.isolation_reason = reason;
        }
        Change::NewSandbox { sandbox, purpose } => new_sandbox(row, *sandbox, purpose, now_ms, applied),
        Change::SandboxImage(image) => {
            let sandbox = row.sandbox_id.clone();
            applied.sandboxes.extend(sandbox.map(|sandbox| SandboxWrite::Image { sandbox, image }));
        }
        Change::SandboxStopped(sandbox) => sandbox_stopped(row, sandbox, applied),
        Change::Begun(begun) => row.begun = begun,
        Change::Sandbox(state) => row.sandbox = state,
        // Never backwards: a repeated event after a resume must not lower the position.
        Change::GuestSequence(sequence) => row.guest_sequence = row.guest_sequence.max(sequence),
        Change::Output(chunk) => return output(row, chunk, now_ms, applied),
        Change::Dropped { stream, first, end, bytes } => {
            let row_stream = row.stream_mut(stream);
            let first_time = row_stream.dropped == 0;
            row_stream.dropped += bytes;
            row_stream.tail_chunk = end;
            applied.dropped.push((stream, first, end));
            if first_time {
                event(row, &StoredEvent::Truncated { stream }, now_ms, applied);
            }
        }
        Change::Ended { outcome, exit_code, failure } => {
            row.outcome = Some(outcome);
            row.exit_code = exit_code;
            row.failure = failure;
        }
        Change::Usage(usage) => row.usage = Some(usage),
        Change::EgressBytes(bytes) => row.egress_bytes = row.egress_bytes.saturating_add(bytes),
        Change::Spent(spent) => {
            if let Some(task) = &mut row.task {
                // Totals come from two writers, the journal's commits and the reports. The greater one is the later one.
                task.spent = task.spent.most(spent);
            }
        }
        Change::ModelWait(wait) => model_wait(row, wait, now_ms, applied),
        Change::ModelAddress(address) => {
            if let Some(task) = &mut row.task {
                task.model_address = address;
            }
        }
        Change::TimeLimit { timeout_s } => row.limits.timeout_s = row.limits.timeout_s.max(timeout_s),
        Change::Journal(entry) => return journal::journal(row, &entry, now_ms, applied),
        Change::Frame { frame, bytes } => {
            row.recording.moments += 1;
            row.recording.pictures = row.recording.pictures.max(frame.picture);
            row.recording.bytes = row.recording.bytes.saturating_add(bytes);
            event(row, &StoredEvent::Frame(frame), now_ms, applied);
        }
        Change::Artifact(artifact) => row.artifact = Some(artifact),
        Change::Explained(explanation) => row.explanation = Some(explanation),
        Change::Audit(entry) => audit(row, &entry, now_ms, applied),
        Change::Event(happened) => event(row, &happened, now_ms, applied),
        Change::Closed => {
            // A job under deletion stays open until its row is gone, so that a crash in between does not lose the deletion.
            row.open = row.delete_requested;
            leave_sandbox(row, applied);
            if row.sandbox != SandboxState::None {
                row.sandbox = SandboxState::Gone;
            }
        }
    }
    Ok(())
}

/// Gives the job a sandbox. Its machine is made after this commit.
fn new_sandbox(
    row: &mut JobRow,
    mut sandbox: SandboxRow,
    purpose: Purpose,
    now_ms: i64,
    applied: &mut Applied,
) {
    // A sandbox that was stopped has been taken out of the row before, so only one that nobody stopped is left here.
    leave_sandbox(row, applied);
    (sandbox.job, sandbox.created_ms) = (Some(row.id.clone()), now_ms);
    row.sandbox_id = Some(sandbox.id.clone());
    applied.sandboxes.push(SandboxWrite::Insert(Box::new(sandbox)));
    row.incarnation += 1;
    row.sandbox = SandboxState::Starting;
    if purpose == Purpose::Run {
        row.attempts += 1;
        row.begun = false;
        row.guest_sequence = 0;
        let output_base = row.output_offsets();
        if let Some(task) = &mut row.task {
            task.output_base = output_base;
        }
    }
}

/// Leaves a sandbox that nobody has stopped, for example because its driver is not configured. Its row stays until one does.
fn leave_sandbox(row: &mut JobRow, applied: &mut Applied) {
    applied.sandboxes.extend(row.sandbox_id.take().map(SandboxWrite::Leave));
}

pub(crate) fn sandbox_stopped(row: &mut JobRow, sandbox: SandboxId, applied: &mut Applied) {
    // The row may name a newer sandbox by now, which must stay.
    row.sandbox_id = row.sandbox_id.take().filter(|present| *present != sandbox);
    applied.sandboxes.push(SandboxWrite::Remove(sandbox));
}

pub(crate) use self::journal::journal as first_entry;

pub(super) fn move_to(
    row: &mut JobRow,
    to: JobState,
    reason: Option<String>,
    now_ms: i64,
    applied: &mut Applied,
) -> Result<(), ChangeError> {
    if !allowed(row.state, to) {
        return Err(ChangeError::IllegalMove { job: row.id.clone(), from: row.state, to });
    }
    if let (JobState::Waiting, Some(task)) = (row.state, &mut row.task) {
        journal::answered(task, now_ms);
    }
    if let Some(task) = &mut row.task {
        task.model_wait = None;
    }
    row.state = to;
    row.reason.clone_from(&reason);
    // Only the first time: a task that waited comes back to `running`.
    if to == JobState::Running && row.started_ms.is_none() {
        row.started_ms = Some(now_ms);
    }
    if to.is_terminal() {
        row.finished_ms = Some(now_ms);
    }
    state_event(row, now_ms, applied);
    state_record(row, now_ms, applied);
    Ok(())
}

/// Notes that a running task waits for its model, or no longer. Those who watch the state see both.
fn model_wait(row: &mut JobRow, wait: Option<ModelWaitRow>, now_ms: i64, applied: &mut Applied) {
    let running = row.state == JobState::Running;
    let Some(task) = row.task.as_mut().filter(|task| task.model_wait != wait) else { return };
    row.reason = wait.as_ref().filter(|_| running).map(|wait| wait.words(now_ms));
    task.model_wait = wait.filter(|_| running);
    if running {
        state_event(row, now_ms, applied);
    }
}

/// Records the state in the audit, at the start with the driver and runtime that the job really got. Open folds are sealed
/// before a terminal state, so that every entry has its record by the end.
fn state_record(row: &mut JobRow, now_ms: i64, applied: &mut Applied) {
    let starting = row.state == JobState::Starting;
    let facts = StateFacts {
        state: row.state,
        reason: row.reason.as_deref().map(|reason| cut(reason, MAX_REASON_BYTES)),
        driver: row.driver.clone().filter(|_| starting),
        runtime: row.runtime.clone().filter(|_| starting),
        exit_code: row.exit_code.filter(|_| row.state.is_terminal()),
    };
    // Sealed before the record of the state: entries from before the end must not be recorded after it.
    if row.state.is_terminal() {
        seal(row, now_ms, applied);
    }
    audit(row, &AuditEntry::new(AuditActor::Host, AuditFacts::State(facts)), now_ms, applied);
}

/// Adds an entry to the audit. An entry of a kind that floods may be folded.
pub(crate) fn audit(row: &mut JobRow, entry: &AuditEntry, now_ms: i64, applied: &mut Applied) {
    if entry.kind() == AuditKind::Export {
        // The audit in a download ends with the export, so no entry may still wait in a fold.
        seal(row, now_ms, applied);
    }
    let (id, from) = (&row.id, applied.audit.len());
    row.audit.get_or_insert_with(|| AuditRow::begin(id.as_str())).note(entry, now_ms, &mut applied.audit);
    row.audit_bytes += bytes(&applied.audit[from..]);
}

fn seal(row: &mut JobRow, now_ms: i64, applied: &mut Applied) {
    let from = applied.audit.len();
    if let Some(audit) = &mut row.audit {
        audit.seal_all(now_ms, &mut applied.audit);
    }
    row.audit_bytes += bytes(&applied.audit[from..]);
}

/// Returns the bytes that lines take in the store.
pub(crate) fn bytes(lines: &[AuditLine]) -> u64 {
    lines.iter().map(|line| line.text.len() as u64).sum()
}

/// Adds the event of the row's state.
pub(crate) fn state_event(row: &mut JobRow, now_ms: i64, applied: &mut Applied) {
    let question = row.task.as_ref().and_then(|task| task.question.as_ref());
    let happened = StoredEvent::State {
        state: row.state,
        reason: row.reason.clone(),
        question: question.map(|question| question.text.clone()),
        exit_code: row.exit_code.filter(|_| row.state.is_terminal()),
    };
    event(row, &happened, now_ms, applied);
}

fn output(row: &mut JobRow, chunk: ChunkRow, now_ms: i64, applied: &mut Applied) -> Result<(), ChangeError> {
    let stream = row.stream_mut(chunk.stream);
    // A commit that is repeated after an unknown result would store the same output twice.
    if chunk.offset != stream.bytes || chunk.number != stream.next_chunk {
        return Err(ChangeError::OutputGap { job: row.id.clone(), offset: chunk.offset });
    }
    stream.bytes += chunk.length;
    stream.next_chunk += 1;
    let ChunkRow { stream, number, offset, length, .. } = chunk;
    event(row, &StoredEvent::Output { stream, chunk: number, offset, length }, now_ms, applied);
    applied.chunks.push(chunk);
    Ok(())
}

fn event(row: &mut JobRow, happened: &StoredEvent, now_ms: i64, applied: &mut Applied) {
    row.last_event += 1;
    applied.events.push(happened.row(row.last_event, now_ms));
}
