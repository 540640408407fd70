//! What changes share: the rows that a commit writes, moves between states, events and audit records.

use sandyard_protocol::OutputStream;
use sandyard_sandbox::driver::{ImageDigest, SandboxId};

use crate::audit::{AuditActor, AuditEntry, AuditFacts, AuditKind, AuditLine, StateFacts, cut};
use crate::job::audit_row::AuditRow;
use crate::job::change::ChunkRow;
use crate::job::change_error::ChangeError;
use crate::job::event::{EventRow, StoredEvent};
use crate::job::row::JobRow;
use crate::job::sandbox_row::SandboxRow;
use crate::job::state::{JobState, allowed};
use crate::job::task_row::TaskRow;

/// Longest reason in the audit record of a state.
const MAX_REASON_BYTES: usize = 500;

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
        answered(task, now_ms);
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

/// Clears the open question and adds the time it was open.
pub(super) fn answered(task: &mut TaskRow, now_ms: i64) {
    if let Some(question) = task.question.take() {
        task.waited_ms += u64::try_from(now_ms - question.asked_ms).unwrap_or(0);
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

pub(super) fn event(row: &mut JobRow, happened: &StoredEvent, now_ms: i64, applied: &mut Applied) {
    row.last_event += 1;
    applied.events.push(happened.row(row.last_event, now_ms));
}
