//! What a job starts from: a repository, then the files of its request, then a note of how it all was.
//!
//! Happens before the job may have begun, so all of it may be repeated by the next owner. The clone is made in the guest, through
//! the job's own way out; what it says and does to the network is recorded like everything later.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sandyard_protocol::EGRESS_PORT;
use sandyard_sandbox::machine::{EventStream, Machine, MachineError};

use super::egress_log::EgressLog;
use super::guest_scripts::{GuestScript, ScriptError, ScriptResult};
use super::outcome::JobOutcome;
use super::starting::StartFailure;
use crate::disk;
use crate::error_chain::chain;
use crate::job::FailureCode;
use crate::job::{Change, JobRow, StoredEvent};
use crate::job::{GitSource, InputFile};
use crate::store::StoredRequest;
use crate::yard::YardContext;

/// A clone. The machine's own lifetime has room for it beside the start and the export (`starting`).
const CLONE: Duration = Duration::from_secs(300);
/// The note of the start.
const SNAPSHOT: Duration = Duration::from_secs(60);
/// Its size. A workspace that packs into more has too much history of its own to be compared by us.
const SNAPSHOT_BYTES: u64 = 128 * 1024 * 1024;
/// Git says nothing on standard output when it clones quietly.
const CLONE_BYTES: u64 = 64 * 1024;

/// Puts everything into the workspace that the request asks for. The event stream is the guest's first on its link; whoever
/// follows the job needs it.
pub(super) async fn prepare(
    context: &YardContext,
    mut row: JobRow,
    machine: &Arc<Machine>,
    request: &StoredRequest,
) -> Result<(JobRow, Option<EventStream>), StartFailure> {
    let mut events = None;
    if let Some(git) = &request.job.git {
        let reason = Some(format!("cloning {}", git.url));
        row = context.commit(&row, vec![Change::Reason(reason)]).await?;
        events = Some(machine.event_stream().await.map_err(|error| StartFailure::Again(chain(&error)))?);
        row = clone(context, row, machine, request, git).await?;
    }
    write_files(&request.files, machine).await?;
    if request.job.git.is_some() {
        let mut changes = vec![Change::Reason(None)];
        if let Err(detail) = snapshot(machine, &context.layout.start(&row.id)).await {
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
        time: CLONE,
        most_output: CLONE_BYTES,
    };
    let trust = context.config.egress.trust.clone().unwrap_or_default();
    let mut nothing = tokio::io::sink();
    let running = script.run(machine, std::io::Cursor::new(trust), &mut nothing);
    tokio::pin!(running);
    let ran = loop {
        tokio::select! {
            ran = &mut running => break ran,
            attempt = egress_log.next() => row = context.commit(&row, egress_log.record(attempt)).await?,
        }
    };
    while let Some(attempt) = egress_log.waiting() {
        row = context.commit(&row, egress_log.record(attempt)).await?;
    }
    let detail = match ran {
        Ok(ran) if ran.succeeded() => return Ok(row),
        Ok(ran) => words(&ran),
        Err(ScriptError::Machine(error @ (MachineError::Lost | MachineError::Deadline))) => {
            return Err(StartFailure::Again(chain(&error)));
        }
        Err(error) => chain(&error),
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
        (_, sandyard_protocol::EndReason::Timeout) => format!("it took longer than {} s", CLONE.as_secs()),
        (true, _) => format!("git ended with code {}", ran.exit.code),
        (false, _) => ran.words.clone(),
    }
}

async fn write_files(files: &[InputFile], machine: &Machine) -> Result<(), StartFailure> {
    for file in files {
        write_file(machine, &file.path, &file.bytes).await.map_err(|error| match error {
            MachineError::Guest(refusal) => StartFailure::Never(JobOutcome::failed(
                FailureCode::FileRefused,
                format!("the file `{}` could not be written: {refusal}", file.path.escape_debug()),
                None,
            )),
            other => StartFailure::Again(chain(&other)),
        })?;
    }
    Ok(())
}

async fn write_file(machine: &Machine, path: &str, bytes: &[u8]) -> Result<(), MachineError> {
    let mut writer = machine.write(path, bytes.len() as u64, None).await?;
    writer.send(bytes).await?;
    writer.finish().await.map(|_| ())
}

/// Keeps the workspace as it is now on the host, where the job can't reach it: a pack behind the id of its tree. A start that
/// can't be kept costs the job its patch, no more.
async fn snapshot(machine: &Machine, folder: &Path) -> Result<(), String> {
    let failed = |error: &dyn std::error::Error| chain(error);
    let (pack, tree) = (folder.join("pack"), folder.join("tree"));
    let received = pack.with_extension("received");
    disk::make_folder(folder).map_err(|error| failed(&error))?;
    let mut output = tokio::fs::File::from_std(disk::new_file(&received).map_err(|error| failed(&error))?);
    let script = GuestScript {
        text: include_str!("scripts/snapshot.sh"),
        arguments: &[],
        time: SNAPSHOT,
        most_output: SNAPSHOT_BYTES,
    };
    let ran = script.run(machine, tokio::io::empty(), &mut output).await.map_err(|error| failed(&error))?;
    if !ran.succeeded() || !is_object_id(&ran.words) {
        return Err("the start of the workspace could not be read".to_owned());
    }
    output.sync_all().await.map_err(|error| failed(&error))?;
    let kept = disk::blocking(move || {
        disk::place_durably(&received, &pack)?;
        disk::write_durably(&tree, &[ran.words.as_bytes()])
    });
    kept.await.map_err(|error| failed(&error))
}

/// What git calls an object: a hash in hexadecimal digits, of either length.
pub(super) fn is_object_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
