//! How a change changes a row: pure, so that every store behaves alike.
//!
//! `Applied` says what else has to be written in the same commit. A refused change leaves nothing behind, because
//! the store works on a copy of the row.

use sandyard_protocol::OutputStream;
use serde_json::json;

mod journal;

use super::audit_row::AuditRow;
use super::change::{Change, ChunkRow, EventRow, Purpose};
use super::id::JobId;
use super::row::JobRow;
use super::state::{JobState, SandboxState, allowed};
use crate::audit::{Actor, Entry, Kind, Line, cut};

/// What a batch adds beside the row itself.
#[derive(Debug, Default)]
pub(crate) struct Applied {
    pub(crate) events: Vec<EventRow>,
    pub(crate) chunks: Vec<ChunkRow>,
    /// Chunks to delete: stream, first, end.
    pub(crate) dropped: Vec<(OutputStream, u64, u64)>,
    pub(crate) journal: Vec<NewEntry>,
    pub(crate) audit: Vec<Line>,
}

/// A change that a row can't take.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChangeError {
    /// The table of moves forbids it.
    #[error("job {job} can't go from {from:?} to {to:?}")]
    IllegalMove { job: JobId, from: JobState, to: JobState },
    /// Output that does not follow what is stored.
    #[error("output of job {job} at {offset} does not follow what is stored")]
    OutputGap { job: JobId, offset: u64 },
    /// The row lacks what the change needs.
    #[error("stored {what} can't be read")]
    Damaged { what: &'static str },
}

/// Words about a state in its audit.
const REASON_BYTES: usize = 500;

/// An entry of a journal, as it is written.
#[derive(Debug)]
pub(crate) struct NewEntry {
    pub(crate) number: u64,
    pub(crate) kind: &'static str,
    pub(crate) at_ms: i64,
    pub(crate) incarnation: u32,
    /// As JSON.
    pub(crate) text: String,
}

/// Applies all changes to the row, or fails.
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
        Change::Incarnation { secret, purpose } => {
            row.incarnation += 1;
            row.secret = secret;
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
        Change::Begun(begun) => row.begun = begun,
        Change::Sandbox(state) => row.sandbox = state,
        Change::GuestSequence(sequence) => row.guest_sequence = row.guest_sequence.max(sequence),
        Change::Output(chunk) => return output(row, chunk, now_ms, applied),
        Change::Dropped { stream, first, end, bytes } => {
            let row_stream = row.stream_mut(stream);
            let first_time = row_stream.dropped == 0;
            row_stream.dropped += bytes;
            row_stream.tail_chunk = end;
            applied.dropped.push((stream, first, end));
            if first_time {
                event(row, "truncated", json!({ "stream": stream }), now_ms, applied);
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
                task.spent = task.spent.most(spent);
            }
        }
        Change::Journal(entry) => return journal::journal(row, &entry, now_ms, applied),
        Change::Artifact(artifact) => row.artifact = Some(artifact),
        Change::Audit(entry) => audit(row, &entry, now_ms, applied),
        Change::Event { kind, data } => event(row, kind, data, now_ms, applied),
        Change::Closed => {
            // A job that is being deleted is done with when its row is gone.
            row.open = row.delete_requested;
            if row.sandbox != SandboxState::None {
                row.sandbox = SandboxState::Gone;
            }
        }
    }
    Ok(())
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
    row.state = to;
    row.reason.clone_from(&reason);
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

/// The state in the audit, with the wall the job really got when it is known. What is folded has its record by the end.
fn state_record(row: &mut JobRow, now_ms: i64, applied: &mut Applied) {
    let mut facts = json!({ "state": row.state });
    let starting = row.state == JobState::Starting;
    let reason = row.reason.as_deref().map(|reason| cut(reason, REASON_BYTES));
    let members = [
        ("reason", reason.map(Into::into)),
        ("driver", row.driver.clone().filter(|_| starting).map(Into::into)),
        ("runtime", row.runtime.clone().filter(|_| starting).map(Into::into)),
        ("exit_code", row.exit_code.filter(|_| row.state.is_terminal()).map(Into::into)),
    ];
    if let Some(object) = facts.as_object_mut() {
        object.extend(members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    }
    if row.state.is_terminal() {
        seal(row, now_ms, applied);
    }
    audit(row, &Entry::new(Actor::Host, Kind::State, facts), now_ms, applied);
}

/// Adds an entry to the audit.
pub(crate) fn audit(row: &mut JobRow, entry: &Entry, now_ms: i64, applied: &mut Applied) {
    if entry.kind == Kind::Export {
        // What is taken out must be whole.
        seal(row, now_ms, applied);
    }
    let (id, from) = (&row.id, applied.audit.len());
    row.audit.get_or_insert_with(|| AuditRow::begin(id)).note(entry, now_ms, &mut applied.audit);
    row.audit_bytes += bytes(&applied.audit[from..]);
}

fn seal(row: &mut JobRow, now_ms: i64, applied: &mut Applied) {
    let from = applied.audit.len();
    if let Some(audit) = &mut row.audit {
        audit.seal_all(now_ms, &mut applied.audit);
    }
    row.audit_bytes += bytes(&applied.audit[from..]);
}

/// What lines take in the store.
pub(crate) fn bytes(lines: &[Line]) -> u64 {
    lines.iter().map(|line| line.text.len() as u64).sum()
}

/// The event of the state the row is in.
pub(crate) fn state_event(row: &mut JobRow, now_ms: i64, applied: &mut Applied) {
    let mut data = json!({ "state": row.state });
    if let (Some(reason), Some(object)) = (&row.reason, data.as_object_mut()) {
        object.insert("reason".into(), json!(reason));
    }
    if let (Some(question), Some(object)) =
        (row.task.as_ref().and_then(|task| task.question.as_ref()), data.as_object_mut())
    {
        object.insert("question".into(), json!(question.text));
    }
    if let (Some(code), true, Some(object)) = (row.exit_code, row.state.is_terminal(), data.as_object_mut()) {
        object.insert("exit_code".into(), json!(code));
    }
    event(row, "state", data, now_ms, applied);
}

fn output(row: &mut JobRow, chunk: ChunkRow, now_ms: i64, applied: &mut Applied) -> Result<(), ChangeError> {
    let stream = row.stream_mut(chunk.stream);
    if chunk.offset != stream.bytes || chunk.number != stream.next_chunk {
        return Err(ChangeError::OutputGap { job: row.id.clone(), offset: chunk.offset });
    }
    stream.bytes += chunk.length;
    stream.next_chunk += 1;
    let kind = match chunk.stream {
        OutputStream::Stdout => "stdout",
        OutputStream::Stderr => "stderr",
    };
    let data = json!({ "chunk": chunk.number, "offset": chunk.offset, "length": chunk.length });
    event(row, kind, data, now_ms, applied);
    applied.chunks.push(chunk);
    Ok(())
}

pub(super) fn event(
    row: &mut JobRow,
    kind: &str,
    data: serde_json::Value,
    now_ms: i64,
    applied: &mut Applied,
) {
    row.last_event += 1;
    applied.events.push(EventRow { id: row.last_event, kind: kind.to_owned(), at_ms: now_ms, data });
}
