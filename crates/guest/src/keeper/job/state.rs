//! The state of the machine's one job: its document on disk and its output. Other services read it; `job` decides about it.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use sandyard_protocol::{ExecutionInfo, Exit, JobProgress, OutputOffsets, OutputStream, ProcessId};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::keeper::environment::ProcessEnvironment;
use crate::keeper::output::capture::{Capture, Retention};
use crate::keeper::processes::{Ending, ProcessLimits};
use crate::keeper::spool::{Spool, SpoolError};

const DOCUMENT: &str = "job.json";

/// The state of the machine's one job.
#[derive(Debug)]
pub(in crate::keeper) struct MachineJob {
    spool: Arc<Spool>,
    environment: Arc<ProcessEnvironment>,
    document: Mutex<Option<JobDocument>>,
    changed: watch::Sender<()>,
    /// The limits of the job's process, as the document says.
    limits: watch::Sender<ProcessLimits>,
    output: [Arc<Capture>; 2],
}

/// The part of the job's state that must outlive keeper.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct JobDocument {
    pub(super) work: StoredWork,
    pub(super) env: BTreeMap<String, String>,
    pub(super) deadline_ms: u64,
    pub(super) idle_timeout_ms: Option<u64>,
    /// True while the job waits for a person: its limits do not count.
    #[serde(default)]
    pub(super) paused: bool,
    /// Silence before this time since boot does not count.
    #[serde(default)]
    pub(super) idle_from_ms: u64,
    /// True if background processes go on after the job's end.
    pub(super) keep: bool,
    pub(super) ending: Option<Ending>,
    pub(super) exit: Option<Exit>,
}

/// The kind of a job that has begun. Its code is elsewhere: in a script file, or sent to a kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StoredWork {
    Shell,
    /// A list of actions or a script for the desktop.
    Gui,
    Session,
    /// An agent that works on a task.
    Task,
    Kernel {
        /// Stored before the code is sent: a keeper that finds it never sends the code again.
        execution: Option<ExecutionInfo>,
    },
}

impl JobDocument {
    fn limits(&self) -> ProcessLimits {
        if self.paused {
            return ProcessLimits::default();
        }
        ProcessLimits {
            deadline_ms: Some(self.deadline_ms),
            idle_timeout_ms: self.idle_timeout_ms,
            idle_from_ms: self.idle_from_ms,
        }
    }
}

impl StoredWork {
    /// True if the job is the main process.
    pub(super) fn is_a_process(&self) -> bool {
        matches!(self, Self::Shell | Self::Gui)
    }
}

impl MachineJob {
    /// Opens the document and the output in the spool, if there are any.
    pub(in crate::keeper) fn open(
        spool: Arc<Spool>,
        environment: Arc<ProcessEnvironment>,
    ) -> Result<Self, SpoolError> {
        let directory = spool.process(&ProcessId::main());
        let open = |name| {
            let path = directory.join(name);
            let failed = |error| SpoolError::new("open the output", &path, error);
            Capture::open(path.clone(), Retention::UntilAcknowledged).map(Arc::new).map_err(failed)
        };
        let output = [open("stdout")?, open("stderr")?];
        let document: Option<JobDocument> = spool.load(DOCUMENT)?;
        if let Some(document) = &document {
            environment.set_job(document.env.clone());
        }
        let limits = watch::Sender::new(document.as_ref().map(JobDocument::limits).unwrap_or_default());
        let changed = watch::Sender::new(());
        Ok(Self { spool, environment, document: Mutex::new(document), changed, limits, output })
    }

    /// One of the two outputs of the job.
    pub(in crate::keeper) fn output(&self, stream: OutputStream) -> &Arc<Capture> {
        let [stdout, stderr] = &self.output;
        match stream {
            OutputStream::Stdout => stdout,
            OutputStream::Stderr => stderr,
        }
    }

    /// Both outputs of the job, standard output first.
    pub(super) fn outputs(&self) -> &[Arc<Capture>; 2] {
        &self.output
    }

    /// Closes the output of a job that has no process, or whose code has ended.
    pub(super) fn close_output(&self) {
        for output in &self.output {
            output.close();
        }
    }

    /// The offsets after the last byte of output.
    pub(super) fn offsets(&self) -> OutputOffsets {
        let [stdout, stderr] = &self.output;
        OutputOffsets { stdout: stdout.end(), stderr: stderr.end() }
    }

    /// The execution that is the job, if its code was sent and it has not ended.
    pub(in crate::keeper) fn execution(&self) -> Option<ExecutionInfo> {
        match self.lock().as_ref() {
            Some(JobDocument { work: StoredWork::Kernel { execution }, exit: None, .. }) => execution.clone(),
            _ => None,
        }
    }

    /// Stores which execution is the job. Called before its code is sent.
    pub(in crate::keeper) fn store_execution(&self, info: &ExecutionInfo) -> Result<(), SpoolError> {
        self.change(|document| document.work = StoredWork::Kernel { execution: Some(info.clone()) })
    }

    /// True if the job has ended, and every process of the machine with it.
    pub(in crate::keeper) fn is_over(&self) -> bool {
        self.lock().as_ref().is_some_and(|document| document.exit.is_some() && !document.keep)
    }

    pub(super) fn progress(&self) -> JobProgress {
        match self.lock().as_ref().map(|document| document.exit) {
            None => JobProgress::Idle,
            Some(None) => JobProgress::Running,
            Some(Some(exit)) => JobProgress::Ended(exit),
        }
    }

    pub(super) fn document(&self) -> Option<JobDocument> {
        self.lock().clone()
    }

    /// The request to end the job, if there is one.
    pub(super) fn ending(&self) -> Option<Ending> {
        self.lock().as_ref().and_then(|document| document.ending)
    }

    /// Notifies of each change of the document.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    pub(super) fn limits(&self) -> watch::Receiver<ProcessLimits> {
        self.limits.subscribe()
    }

    /// Stores the document that `begin` makes, unless there is one already. Returns the new document.
    pub(super) fn begin_once<E: From<SpoolError>>(
        &self,
        begin: impl FnOnce() -> Result<JobDocument, E>,
    ) -> Result<Option<JobDocument>, E> {
        // Locked throughout: of two requests at once, one begins the job.
        let mut document = self.lock();
        if document.is_some() {
            return Ok(None);
        }
        let new = begin()?;
        // On disk before anything in memory changes: a job must not begin that the next keeper does not know.
        self.spool.store(DOCUMENT, &new)?;
        self.environment.set_job(new.env.clone());
        self.limits.send_replace(new.limits());
        *document = Some(new.clone());
        Ok(Some(new))
    }

    /// Changes the document, on disk first. Nothing happens before the job has begun.
    pub(super) fn change(&self, change: impl FnOnce(&mut JobDocument)) -> Result<(), SpoolError> {
        let mut document = self.lock();
        let Some(mut changed) = document.clone() else { return Ok(()) };
        change(&mut changed);
        // On disk first. If that fails, readers keep the old document and the caller gets the error.
        self.spool.store(DOCUMENT, &changed)?;
        self.limits.send_replace(changed.limits());
        *document = Some(changed);
        // Unlocked before the notice: everyone who wakes up reads the document.
        drop(document);
        self.changed.send_replace(());
        Ok(())
    }

    /// Stores a request to end the job, joined with an earlier one.
    pub(super) fn end(&self, ending: Ending) -> Result<(), SpoolError> {
        self.change(|document| document.ending = Some(ending.merge(document.ending)))
    }

    fn lock(&self) -> MutexGuard<'_, Option<JobDocument>> {
        self.document.lock()
    }
}
