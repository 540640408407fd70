//! Applies changes to a row. Pure, so that every store behaves alike.
//!
//! `Applied` lists the rows that the store must write in the same commit. A rejected change leaves nothing behind, because the
//! store works on a copy of the row.

mod effects;
mod journal;

use sandyard_sandbox::driver::SandboxId;

pub(crate) use super::change_error::ChangeError;
#[cfg(test)]
pub(crate) use effects::NewEntry;
pub(crate) use effects::{Applied, SandboxWrite, audit, bytes, state_event};
pub(crate) use journal::journal as first_entry;

use super::change::{Change, ChunkRow, Purpose};
use super::event::StoredEvent;
use super::row::JobRow;
use super::sandbox_row::SandboxRow;
use super::state::{JobState, SandboxState};
use super::task_row::ModelWaitRow;
use effects::{event, move_to};

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
