//! The job: begun once, whatever happens to keeper; ended by itself, by its time, or by the host.
//!
//! Its document is on disk before its process exists. A keeper that finds the document but no process knows that the job
//! was interrupted and says so; it never starts it again. Order at the end: output taken, document, event, forget.

use std::collections::{BTreeMap, btree_map};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandyard_protocol::limits::CODE_BYTES;
use sandyard_protocol::{
    BeginJob, EndReason, Exit, GuestError, GuestErrorCode, JobProgress, JobWork, OutputOffsets, OutputStream,
    ProcessId, Reply, Request,
};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::Keeper;
use super::capture::{Capture, Retention};
use super::clock::{boot_ms, sleep_until};
use super::limits::LONGEST_GRACE_MS;
use super::link::{HostStream, reply};
use super::processes::{
    Descriptors, Ending, Limits, Process, Scope, Supervision, check_environment, main_command,
};
use super::spool::{Spool, SpoolError};
use crate::process_host::{Command, SpawnError, Spawned, Survivor};

const DOCUMENT: &str = "job.json";
const SCRIPT: &str = "job.sh";

/// The one job of this machine.
#[derive(Debug)]
pub(super) struct Job {
    document: Mutex<Option<Document>>,
    changed: watch::Sender<()>,
    output: [Arc<Capture>; 2],
}

/// What must be known of the job after keeper's death.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Document {
    is_shell: bool,
    env: BTreeMap<String, String>,
    deadline_ms: u64,
    idle_timeout_ms: Option<u64>,
    keep: bool,
    ending: Option<Ending>,
    exit: Option<Exit>,
}

impl Job {
    /// Opens what the spool knows of it.
    pub(super) fn open(spool: &Spool) -> Result<Self, SpoolError> {
        let directory = spool.process(&ProcessId::main());
        let open = |name| {
            let path = directory.join(name);
            let failed = |error| SpoolError::new("open the output", &path, error);
            Capture::open(path.clone(), Retention::UntilAcknowledged).map(Arc::new).map_err(failed)
        };
        let output = [open("stdout")?, open("stderr")?];
        Ok(Self { document: Mutex::new(spool.load(DOCUMENT)?), changed: watch::Sender::new(()), output })
    }

    /// One of the outputs of the job's process.
    pub(super) fn output(&self, stream: OutputStream) -> Arc<Capture> {
        let [stdout, stderr] = &self.output;
        match stream {
            OutputStream::Stdout => stdout.clone(),
            OutputStream::Stderr => stderr.clone(),
        }
    }

    /// Added to the environment of everything that runs.
    pub(super) fn environment(&self) -> BTreeMap<String, String> {
        self.document().as_ref().map(|document| document.env.clone()).unwrap_or_default()
    }

    fn progress(&self) -> JobProgress {
        match self.document().as_ref().map(|document| document.exit) {
            None => JobProgress::Idle,
            Some(None) => JobProgress::Running,
            Some(Some(exit)) => JobProgress::Ended(exit),
        }
    }

    fn offsets(&self) -> OutputOffsets {
        let [stdout, stderr] = &self.output;
        OutputOffsets { stdout: stdout.end(), stderr: stderr.end() }
    }

    /// Changes the document, on disk first.
    fn change(&self, spool: &Spool, change: impl FnOnce(&mut Document)) -> Result<(), SpoolError> {
        let mut document = self.document();
        let Some(mut changed) = document.clone() else { return Ok(()) };
        change(&mut changed);
        spool.store(DOCUMENT, &changed)?;
        *document = Some(changed);
        drop(document);
        self.changed.send_replace(());
        Ok(())
    }

    fn document(&self) -> MutexGuard<'_, Option<Document>> {
        self.document.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves `BeginJob` and `EndJob`.
pub(super) async fn serve(keeper: Arc<Keeper>, request: Request, mut stream: HostStream) {
    let outcome = match request {
        Request::BeginJob(begin) => begin_once(&keeper, begin),
        Request::EndJob { reason, grace_ms } => end(&keeper, Ending::after(reason, grace_ms.min(LONGEST_GRACE_MS))),
        _ => return,
    };
    let answer = match outcome {
        Ok(()) => Reply::Job(keeper.job.progress()),
        Err(error) => Reply::Failed(error),
    };
    reply(&mut stream, &answer).await;
}

/// Begins the job unless it has begun. The rest happens in a task of keeper's own, whatever becomes of the stream.
fn begin_once(keeper: &Arc<Keeper>, begin: BeginJob) -> Result<(), GuestError> {
    check_environment(&begin.env)?;
    let mut document = keeper.job.document();
    if document.is_some() {
        return Ok(());
    }
    let code = match &begin.work {
        JobWork::Shell { code } if code.len() > CODE_BYTES => {
            return Err(GuestError::new(GuestErrorCode::LimitReached, "the script is too long"));
        }
        JobWork::Shell { code } => Some(code),
        JobWork::Session => None,
    };
    if let Some(code) = code {
        write_script(keeper, code).map_err(|error| internal(&format!("write the script: {error}")))?;
    }
    let new = Document {
        is_shell: code.is_some(),
        env: begin.env,
        deadline_ms: boot_ms().saturating_add(begin.timeout_ms),
        idle_timeout_ms: begin.idle_timeout_ms,
        keep: begin.keep,
        ending: None,
        exit: None,
    };
    keeper.spool.store(DOCUMENT, &new).map_err(|error| internal(&error.to_string()))?;
    *document = Some(new.clone());
    drop(document);
    let owner = keeper.clone();
    keeper.tasks.spawn(async move {
        let outcome = if new.is_shell { start_shell(&owner, new).await } else { run_session(&owner, new).await };
        owner.stop_on(outcome);
    });
    Ok(())
}

/// Asks that the job end; harmless if it has, or never began.
fn end(keeper: &Keeper, ending: Ending) -> Result<(), GuestError> {
    let merge = |document: &mut Document| document.ending = Some(ending.merge(document.ending));
    keeper.job.change(&keeper.spool, merge).map_err(|error| internal(&error.to_string()))
}

/// Takes up the job of the keeper before.
pub(super) fn recover(keeper: &Arc<Keeper>, survivors: &mut BTreeMap<ProcessId, Survivor>) -> Result<(), SpoolError> {
    let Some(document) = keeper.job.document().clone() else { return Ok(()) };
    let main = match survivors.entry(ProcessId::main()) {
        btree_map::Entry::Occupied(entry) => Some(entry.remove()),
        btree_map::Entry::Vacant(_) => None,
    };
    if let Some(exit) = document.exit {
        // The end was decided; what may be missing is that it was told.
        keeper.events.ended(exit, keeper.job.offsets())?;
        return release_main(keeper, main, document.keep);
    }
    let owner = keeper.clone();
    keeper.tasks.spawn(async move {
        let outcome = match main {
            _ if !document.is_shell => run_session(&owner, document).await,
            Some(Survivor { command, spawned, exit }) => {
                let raw_exit = owner.exits.expect(&ProcessId::main());
                if let Some(exit) = exit {
                    owner.exits.deliver(exit);
                }
                run_shell(&owner, document, &command, spawned, raw_exit).await
            }
            None => interrupted(&owner),
        };
        owner.stop_on(outcome);
    });
    Ok(())
}

/// After the end nothing of the main process is needed but, for what it left running, somebody who reads.
fn release_main(keeper: &Arc<Keeper>, main: Option<Survivor>, keep: bool) -> Result<(), SpoolError> {
    let Some(main) = main else { return Ok(()) };
    if !keep {
        keeper.forget_later(ProcessId::main());
        return Ok(());
    }
    if let Ok(descriptors) = Descriptors::new(main.spawned, false) {
        discard_then_forget(keeper, descriptors.into_sources());
    }
    Ok(())
}

fn discard_then_forget(keeper: &Arc<Keeper>, sources: Vec<super::pump::Source>) {
    let owner = keeper.clone();
    keeper.tasks.spawn(async move {
        for source in sources {
            source.discard().await;
        }
        let _ = owner.host.forget(&ProcessId::main()).await;
    });
}

fn interrupted(keeper: &Keeper) -> Result<(), SpoolError> {
    keeper.events.note("the job was interrupted while it was being started".into())?;
    finish(keeper, Exit { code: 137, signal: Some(9), reason: EndReason::Own })
}

async fn start_shell(keeper: &Arc<Keeper>, document: Document) -> Result<(), SpoolError> {
    let raw_exit = keeper.exits.expect(&ProcessId::main());
    let command = main_command(keeper, &script_path(keeper));
    let spawned = match &command {
        Ok(command) => keeper.host.spawn(command.clone()).await.map_err(|error| describe(&error)),
        Err(error) => Err(error.to_string()),
    };
    match (command, spawned) {
        (Ok(command), Ok(spawned)) => run_shell(keeper, document, &command, spawned, raw_exit).await,
        (_, spawned) => {
            let why = spawned.err().unwrap_or_default();
            keeper.events.note(format!("the job could not be started: {why}"))?;
            // As shells say that a command could not be executed.
            finish(keeper, Exit { code: 126, signal: None, reason: EndReason::Own })
        }
    }
}

/// Follows the main process to its end.
async fn run_shell(
    keeper: &Arc<Keeper>,
    document: Document,
    command: &Command,
    spawned: Spawned,
    raw_exit: watch::Receiver<Option<crate::process_host::RawExit>>,
) -> Result<(), SpoolError> {
    let failed = |error| SpoolError::new("take over the output of", &keeper.spool.process(&ProcessId::main()), error);
    let descriptors = Descriptors::new(spawned, false).map_err(failed)?;
    let (process, sources) = Process::running(command, descriptors, keeper.job.output.clone());
    keeper.processes.insert(process.clone());
    keeper.events.started()?;
    let supervision = Supervision {
        process: process.clone(),
        sources,
        raw_exit,
        limits: Limits { deadline_ms: Some(document.deadline_ms), idle_timeout_ms: document.idle_timeout_ms },
        scope: Scope::Machine { keep: document.keep },
    };
    let (exit, held) = tokio::select! {
        ended = supervision.run(keeper.host.as_ref()) => ended,
        () = forward_endings(keeper, &process) => return Ok(()),
    };
    finish(keeper, exit)?;
    process.set_exit(exit);
    keeper.exits.unexpect(&ProcessId::main());
    if document.keep && !held.is_empty() {
        discard_then_forget(keeper, held);
    } else {
        let _ = keeper.host.forget(&ProcessId::main()).await;
    }
    Ok(())
}

/// Hands the host's wish that the job end to its process. Never returns.
async fn forward_endings(keeper: &Keeper, process: &Process) {
    let mut changes = keeper.job.changed.subscribe();
    loop {
        let ending = keeper.job.document().as_ref().and_then(|document| document.ending);
        if let Some(ending) = ending {
            process.end(ending);
        }
        if changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// A session has no process of its own: it lasts until its time is up or the host ends it.
async fn run_session(keeper: &Arc<Keeper>, document: Document) -> Result<(), SpoolError> {
    keeper.events.started()?;
    for output in &keeper.job.output {
        output.close();
    }
    let mut changes = keeper.job.changed.subscribe();
    let reason = loop {
        let ending = keeper.job.document().as_ref().and_then(|document| document.ending);
        if let Some(ending) = ending {
            break ending.reason;
        }
        tokio::select! {
            () = sleep_until(Some(document.deadline_ms)) => break EndReason::Timeout,
            _ = changes.changed() => {}
        }
    };
    if !document.keep {
        let _ = keeper.host.kill_everything().await;
    }
    finish(keeper, Exit { code: 0, signal: None, reason })
}

/// The end: known, then told. Each step may be repeated by the next keeper.
fn finish(keeper: &Keeper, exit: Exit) -> Result<(), SpoolError> {
    keeper.job.change(&keeper.spool, |document| document.exit = Some(exit))?;
    keeper.events.ended(exit, keeper.job.offsets())?;
    // Left behind, it is merely read by no one.
    let _ = fs::remove_file(script_path(keeper));
    Ok(())
}

fn script_path(keeper: &Keeper) -> PathBuf {
    keeper.config.scripts.join(SCRIPT)
}

/// The job must be able to read the script and need not be able to write it.
fn write_script(keeper: &Keeper, code: &str) -> io::Result<()> {
    let path = script_path(keeper);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(&path)?;
    io::Write::write_all(&mut file, code.as_bytes())?;
    file.set_permissions(fs::Permissions::from_mode(0o444))
}

fn describe(error: &SpawnError) -> String {
    match error {
        SpawnError::Refused { what, source } => format!("{what}: {source}"),
        SpawnError::Gone => error.to_string(),
    }
}

fn internal(message: &str) -> GuestError {
    GuestError::new(GuestErrorCode::Internal, message)
}
