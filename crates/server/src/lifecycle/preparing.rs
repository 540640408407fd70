//! Prepares the workspace: clones a repository, writes the files of the request, and stores a snapshot of the result.
//!
//! All of this happens before the job may have begun, so the next owner may repeat it. The clone is made in the guest, through
//! the job's own egress gateway, and its connections are recorded like those of the job.

use std::sync::Arc;
use std::time::Duration;

use sandyard_protocol::{EGRESS_PORT, ErrorChain};
use sandyard_sandbox::machine::{GuestEventStream, Machine, MachineError};

use super::egress_log::EgressLog;
use super::guest_scripts::{GuestScript, ScriptError, ScriptResult};
use super::outcome::JobOutcome;
use super::start_failure::StartFailure;
use crate::blobs::{BlobKey, BlobNoun, Durability};
use crate::disk;
use crate::job::FailureCode;
use crate::job::{Change, JobRow, StoredEvent};
use crate::job::{GitSource, InputFile};
use crate::store::StoredRequest;
use crate::yard::YardContext;

/// Time for a clone. The lifetime of the machine has room for it beside start and export (`making`).
const CLONE_TIMEOUT: Duration = Duration::from_secs(300);
/// Time for the snapshot.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(60);
/// The largest pack of a snapshot. A workspace with more gets no patch.
const MAX_SNAPSHOT_BYTES: u64 = 128 * 1024 * 1024;
/// Standard output of a clone; git prints nothing there when it clones quietly.
const MAX_CLONE_OUTPUT_BYTES: u64 = 64 * 1024;

/// Puts everything into the workspace that the request asks for. Returns the event stream if it had to be opened for the
/// clone: a link has only one, and the session needs it.
pub(super) async fn prepare(
    context: &YardContext,
    mut row: JobRow,
    machine: &Arc<Machine>,
    request: &StoredRequest,
) -> Result<(JobRow, Option<GuestEventStream>), StartFailure> {
    let mut events = None;
    if let Some(git) = &request.job.git {
        let reason = Some(format!("cloning {}", git.url));
        row = context.commit(&row, vec![Change::Reason(reason)]).await?;
        // Before the clone: the guest opens this stream first on every link, and the gateway's loop would drop it.
        events = Some(
            machine
                .event_stream()
                .await
                .map_err(|error| StartFailure::Again(ErrorChain(&error).to_string()))?,
        );
        row = clone(context, row, machine, request, git).await?;
    }
    // After the clone, which empties the workspace first. Files of the request may replace files of the repository.
    write_files(&request.files, machine).await?;
    if request.job.git.is_some() {
        // The snapshot comes last: it is the start that the patch compares with, and must contain the files of the request.
        let mut changes = vec![Change::Reason(None)];
        if let Err(detail) = snapshot(context, &row, machine).await {
            let text = format!("there will be no changes.patch: {detail}");
            changes.push(Change::Event(StoredEvent::Note { text }));
        }
        row = context.commit(&row, changes).await?;
    }
    Ok((row, events))
}

async fn clone(
    context: &YardContext,
    mut row: JobRow,
    machine: &Arc<Machine>,
    request: &StoredRequest,
    git: &GitSource,
) -> Result<JobRow, StartFailure> {
    let mut egress_log = EgressLog::new(&request.job, &row, context);
    let _gateways = egress_log.serve(machine, None);
    let proxy = format!("http://127.0.0.1:{EGRESS_PORT}");
    let script = GuestScript {
        text: include_str!("scripts/clone.sh"),
        arguments: &[&git.url, git.reference.as_deref().unwrap_or_default(), &proxy],
        time: CLONE_TIMEOUT,
        most_output: MAX_CLONE_OUTPUT_BYTES,
    };
    let trust = context.config.egress.trust.clone().unwrap_or_default();
    let mut nothing = tokio::io::sink();
    let running = script.run(machine, std::io::Cursor::new(trust), &mut nothing);
    tokio::pin!(running);
    // Attempts are committed while git runs: the gateway waits when too many of them are queued, and so would git. `running` is
    // pinned and `next` reads a channel, so cancelling either branch loses nothing.
    let ran = loop {
        tokio::select! {
            ran = &mut running => break ran,
            attempt = egress_log.next() => row = context.commit(&row, egress_log.record(attempt)).await?,
        }
    };
    // The last attempts may still be queued when git exits.
    while let Some(attempt) = egress_log.waiting() {
        row = context.commit(&row, egress_log.record(attempt)).await?;
    }
    let detail = match ran {
        Ok(ran) if ran.succeeded() => return Ok(row),
        Ok(ran) => words(&ran),
        // A lost machine says nothing about the repository: another machine may clone it.
        Err(ScriptError::Machine(error @ (MachineError::Lost | MachineError::Deadline))) => {
            return Err(StartFailure::Again(ErrorChain(&error).to_string()));
        }
        Err(error) => ErrorChain(&error).to_string(),
    };
    let mut outcome = JobOutcome::failed(
        FailureCode::GitFailed,
        format!("the repository could not be cloned: {detail}"),
        None,
    );
    outcome.failure = egress_log.explain(outcome.failure);
    Err(StartFailure::Never(outcome))
}

fn words(ran: &ScriptResult) -> String {
    match (ran.words.is_empty(), ran.exit.reason) {
        (_, sandyard_protocol::EndReason::Timeout) => {
            format!("it took longer than {} s", CLONE_TIMEOUT.as_secs())
        }
        (true, _) => format!("git ended with code {}", ran.exit.code),
        (false, _) => ran.words.clone(),
    }
}

async fn write_files(files: &[InputFile], machine: &Machine) -> Result<(), StartFailure> {
    for file in files {
        write_file(machine, &file.path, &file.bytes).await.map_err(|error| match error {
            // A path that the guest refuses is refused by every machine.
            MachineError::Guest(refusal) => StartFailure::Never(JobOutcome::failed(
                FailureCode::FileRefused,
                format!("the file `{}` could not be written: {refusal}", file.path.escape_debug()),
                None,
            )),
            other => StartFailure::Again(ErrorChain(&other).to_string()),
        })?;
    }
    Ok(())
}

async fn write_file(machine: &Machine, path: &str, bytes: &[u8]) -> Result<(), MachineError> {
    let mut writer = machine.write(path, bytes.len() as u64, None).await?;
    writer.send(bytes).await?;
    writer.finish().await.map(|_| ())
}

/// Stores the workspace as it is now on the host, where the job can't change it: a pack, and the id of its tree. A job whose
/// snapshot fails gets no patch, and nothing else is lost.
async fn snapshot(context: &YardContext, row: &JobRow, machine: &Machine) -> Result<(), String> {
    let failed = |error: &dyn std::error::Error| ErrorChain(error).to_string();
    let most_bytes = MAX_SNAPSHOT_BYTES.min(row.limits.machine.disk_mib.saturating_mul(1024 * 1024));
    if !context.admission.may_write(most_bytes) {
        return Err("the yard's disk has no room for the start of the workspace".to_owned());
    }
    let scratch = context.scratch.clone();
    let pack = disk::blocking(move || scratch.file()).await.map_err(|error| failed(&error))?;
    let handle = pack.handle().map_err(|error| failed(&error))?;
    let script = GuestScript {
        text: include_str!("scripts/snapshot.sh"),
        arguments: &[],
        time: SNAPSHOT_TIMEOUT,
        most_output: most_bytes,
    };
    let mut output = tokio::fs::File::from_std(handle);
    let ran = script.run(machine, tokio::io::empty(), &mut output).await.map_err(|error| failed(&error))?;
    // The id becomes an argument of a later script, so nothing but a hash is accepted.
    if !ran.succeeded() || !is_object_id(&ran.words) {
        return Err("the start of the workspace could not be read".to_owned());
    }
    let (pack_key, tree_key) =
        (BlobKey::new(&row.id, BlobNoun::StartPack), BlobKey::new(&row.id, BlobNoun::StartTree));
    context.blobs.put_file(&pack_key, pack).await.map_err(|error| failed(&error))?;
    // Stored after the pack: with a tree and no pack, the patch would contain the whole workspace.
    let tree = vec![(tree_key, ran.words.into())];
    context.blobs.put_all(tree, Durability::Synced).await.map_err(|error| failed(&error))
}

/// True for the id of a git object: a hash in hexadecimal digits, of either length.
pub(super) fn is_object_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
