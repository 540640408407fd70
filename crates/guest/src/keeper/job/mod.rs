//! The job: begun once, whatever happens to keeper; ended by itself, by its time, or by the host.
//!
//! Its document is on disk before its process exists. A keeper that finds the document asks the spawner what
//! became of the process: one that was never forked is started now, one that was is followed, or was interrupted and is never
//! started again. Order at the end: output taken, document, event, forget.

mod kernel;
mod run;
mod script;
mod task;
mod trust;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandyard_protocol::limits::CODE_BYTES;
use sandyard_protocol::{
    BeginJob, ExecutionInfo, Exit, GuestError, GuestErrorCode, JobProgress, JobWork, OutputOffsets,
    OutputStream, ProcessId, Reply, Request,
};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::Keeper;
use super::capture::{Capture, Retention};
use super::clock::boot_ms;
use super::kernels::Execution;
use super::link::{HostStream, reply};
use super::processes::{Ending, Limits, Process, check_environment};
use super::spool::{Spool, SpoolError};
use crate::limits::LONGEST_GRACE_MS;
use crate::process_host::Survivor;

const DOCUMENT: &str = "job.json";

/// The one job of this machine.
#[derive(Debug)]
pub(super) struct Job {
    document: Mutex<Option<Document>>,
    changed: watch::Sender<()>,
    /// How long the job's process may go on, as the document says.
    limits: watch::Sender<Limits>,
    output: [Arc<Capture>; 2],
}

/// What must be known of the job after keeper's death.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Document {
    work: Work,
    env: BTreeMap<String, String>,
    deadline_ms: u64,
    idle_timeout_ms: Option<u64>,
    /// Whether its clocks stand: it waits for a person.
    #[serde(default)]
    paused: bool,
    /// Silence before this time since boot does not count.
    #[serde(default)]
    idle_from_ms: u64,
    keep: bool,
    ending: Option<Ending>,
    exit: Option<Exit>,
}

/// What the job is, once it has begun; its code is with whoever runs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Work {
    Shell,
    /// A list of actions or a script for the desktop.
    Gui,
    Session,
    /// The loop of a task.
    Task,
    Kernel {
        /// Noted before the code is sent: a keeper that finds it never sends it again.
        execution: Option<ExecutionInfo>,
    },
}

impl Document {
    fn limits(&self) -> Limits {
        if self.paused {
            return Limits::default();
        }
        Limits {
            deadline_ms: Some(self.deadline_ms),
            idle_timeout_ms: self.idle_timeout_ms,
            idle_from_ms: self.idle_from_ms,
        }
    }
}

impl Work {
    /// Whether the job is the main process.
    fn is_a_process(&self) -> bool {
        matches!(self, Self::Shell | Self::Gui)
    }
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
        let document: Option<Document> = spool.load(DOCUMENT)?;
        let limits = watch::Sender::new(document.as_ref().map(Document::limits).unwrap_or_default());
        Ok(Self { document: Mutex::new(document), changed: watch::Sender::new(()), limits, output })
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

    /// The execution that is the job, if it was begun and has not ended.
    pub(super) fn execution(&self) -> Option<ExecutionInfo> {
        match self.document().as_ref() {
            Some(Document { work: Work::Kernel { execution }, exit: None, .. }) => execution.clone(),
            _ => None,
        }
    }

    /// Whether it has ended, and everything in the machine with it.
    pub(super) fn is_over(&self) -> bool {
        self.document().as_ref().is_some_and(|document| document.exit.is_some() && !document.keep)
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
        self.limits.send_replace(changed.limits());
        *document = Some(changed);
        drop(document);
        self.changed.send_replace(());
        Ok(())
    }

    fn document(&self) -> MutexGuard<'_, Option<Document>> {
        self.document.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves what concerns the job's life.
pub(super) async fn serve(keeper: Arc<Keeper>, request: Request, mut stream: HostStream) {
    let outcome = match request {
        Request::BeginJob(begin) => begin_once(&keeper, begin),
        Request::EndJob { reason, grace_ms } => {
            end(&keeper, Ending::after(reason, grace_ms.min(LONGEST_GRACE_MS)))
        }
        Request::PauseJob => pause(&keeper),
        Request::ResumeJob { timeout_ms } => resume(&keeper, timeout_ms),
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
    let work = match &begin.work {
        JobWork::Shell { code } | JobWork::Gui { code } | JobWork::Kernel { code, .. }
            if code.len() > CODE_BYTES =>
        {
            return Err(GuestError::new(GuestErrorCode::LimitReached, "the script is too long"));
        }
        JobWork::Shell { code } => {
            script::write(keeper, code).map_err(|error| internal(&format!("write the script: {error}")))?;
            Work::Shell
        }
        JobWork::Gui { code } => {
            script::write(keeper, code).map_err(|error| internal(&format!("write the script: {error}")))?;
            Work::Gui
        }
        JobWork::Kernel { .. } => Work::Kernel { execution: None },
        JobWork::Session => Work::Session,
        JobWork::Task if keeper.config.agent.is_some() => Work::Task,
        JobWork::Task => {
            return Err(GuestError::new(GuestErrorCode::BadRequest, "this machine has no loop for tasks"));
        }
    };
    let mut env = begin.env;
    if let Some(pem) = &begin.trust {
        trust::write(&keeper.config.scripts, pem, &mut env)
            .map_err(|error| internal(&format!("write the certificates: {error}")))?;
    }
    let new = Document {
        work,
        env,
        deadline_ms: boot_ms().saturating_add(begin.timeout_ms),
        idle_timeout_ms: begin.idle_timeout_ms,
        paused: false,
        idle_from_ms: 0,
        keep: begin.keep,
        ending: None,
        exit: None,
    };
    keeper.spool.store(DOCUMENT, &new).map_err(|error| internal(&error.to_string()))?;
    keeper.job.limits.send_replace(new.limits());
    *document = Some(new.clone());
    drop(document);
    let owner = keeper.clone();
    keeper.tasks.spawn(async move {
        let outcome = match begin.work {
            JobWork::Shell { .. } | JobWork::Gui { .. } => run::start_shell(&owner, new).await,
            JobWork::Session => run::run_session(&owner, new).await,
            JobWork::Task => task::run(&owner, new).await,
            JobWork::Kernel { language, code } => kernel::start(&owner, new, language, code).await,
        };
        owner.stop_on(outcome);
    });
    Ok(())
}

/// Asks that the job end; harmless if it has, or never began.
fn end(keeper: &Keeper, ending: Ending) -> Result<(), GuestError> {
    let merge = |document: &mut Document| document.ending = Some(ending.merge(document.ending));
    keeper.job.change(&keeper.spool, merge).map_err(|error| internal(&error.to_string()))
}

/// Stops the clocks of the job's process.
fn pause(keeper: &Keeper) -> Result<(), GuestError> {
    let stop = |document: &mut Document| document.paused = true;
    keeper.job.change(&keeper.spool, stop).map_err(|error| internal(&error.to_string()))
}

/// Lets them run again.
fn resume(keeper: &Keeper, timeout_ms: u64) -> Result<(), GuestError> {
    let run = |document: &mut Document| {
        if std::mem::take(&mut document.paused) {
            document.deadline_ms = boot_ms().saturating_add(timeout_ms);
            document.idle_from_ms = boot_ms();
        }
    };
    keeper.job.change(&keeper.spool, run).map_err(|error| internal(&error.to_string()))
}

/// Notes which execution is the job, before its code is sent; false if that can't be done.
pub(super) fn note_execution(keeper: &Keeper, info: &ExecutionInfo) -> bool {
    let noted = keeper.job.change(&keeper.spool, |document| {
        document.work = Work::Kernel { execution: Some(info.clone()) };
    });
    let is_noted = noted.is_ok();
    keeper.stop_on(noted);
    is_noted
}

/// What became of the main process of the keeper before.
#[derive(Debug)]
pub(super) enum Main {
    /// It runs, or has ended and not been forgotten.
    Found(Box<Survivor>),
    /// It ran, but nobody holds its streams.
    Lost,
    /// The spawner never forked it.
    Never,
}

/// Takes up the job of the keeper before; `execution` is what of it is in a kernel.
pub(super) fn recover(
    keeper: &Arc<Keeper>,
    main: Main,
    execution: Option<Arc<Execution>>,
) -> Result<(), SpoolError> {
    let Some(document) = keeper.job.document().clone() else { return Ok(()) };
    if let Some(exit) = document.exit {
        // The end was decided; what may be missing is that it was told.
        keeper.events.ended(exit, keeper.job.offsets())?;
        if document.work.is_a_process() {
            let argv = run::argv(keeper, &document.work);
            let pid = if let Main::Found(main) = &main { main.spawned.pid } else { 0 };
            let process = Process::over(ProcessId::main(), pid, argv, exit, keeper.job.output.clone());
            keeper.processes.insert(process);
        }
        return run::release_main(keeper, main, document.keep);
    }
    let owner = keeper.clone();
    keeper.tasks.spawn(async move {
        let outcome = match main {
            _ if document.work == Work::Session => run::run_session(&owner, document).await,
            _ if document.work == Work::Task => task::run(&owner, document).await,
            _ if !document.work.is_a_process() => match execution {
                Some(execution) => kernel::follow(&owner, document, &execution).await,
                None => run::interrupted(&owner, &document).await,
            },
            Main::Found(main) => {
                let Survivor { command, spawned, exit } = *main;
                let raw_exit = owner.exits.expect(&ProcessId::main());
                if let Some(exit) = exit {
                    owner.exits.deliver(exit);
                }
                run::run_shell(&owner, document, &command, spawned, raw_exit).await
            }
            // The keeper before died between its note and the fork: this is the first start, not a second one.
            Main::Never if document.ending.is_none() => run::start_shell(&owner, document).await,
            Main::Never | Main::Lost => run::interrupted(&owner, &document).await,
        };
        owner.stop_on(outcome);
    });
    Ok(())
}

fn internal(message: &str) -> GuestError {
    GuestError::new(GuestErrorCode::Internal, message)
}
