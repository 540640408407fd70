//! The job: begun once, even if keeper is killed; ended by itself, by its time limits, or by the host.
//!
//! Its document (`state`) is on disk before its process exists. A keeper that finds the document asks the spawner about the
//! process: one that was never forked is started now; one that was forked is followed, or was interrupted and is never started
//! again. Order at the end: output taken, document, event, forget.

mod context;
mod kernel;
mod run;
mod script;
pub(super) mod state;
mod task;
mod trust;

use std::sync::Arc;

use sandyard_protocol::limits::CODE_BYTES;
use sandyard_protocol::{BeginJob, GuestError, GuestErrorCode, JobWork, ProcessId, Reply, Request};

pub(super) use context::JobContext;
pub(super) use run::MainProcess;

use super::clock::boot_ms;
use super::kernels::Execution;
use super::processes::{Ending, ManagedProcess, check_environment};
use super::spool::SpoolError;
use super::stream::{HostStream, reply};
use crate::limits::LONGEST_GRACE_MS;
use crate::process_host::Survivor;
use state::{JobDocument, StoredWork};

/// Serves the requests that begin, pause, resume and end the job.
pub(super) struct JobService(Arc<JobContext>);

impl JobService {
    pub(super) fn new(context: JobContext) -> Self {
        Self(Arc::new(context))
    }

    /// Serves a request about the job and answers with the job's progress.
    pub(super) async fn serve(&self, request: Request, mut stream: HostStream) {
        let outcome = match request {
            Request::BeginJob(begin) => self.begin(begin),
            Request::EndJob { reason, grace_ms } => {
                let ending = Ending::after(reason, grace_ms.min(LONGEST_GRACE_MS));
                self.0.state.end(ending).map_err(JobRequestFailure::from)
            }
            Request::PauseJob => self.pause(),
            Request::ResumeJob { timeout_ms } => self.resume(timeout_ms),
            _ => return,
        };
        let answer = match outcome {
            Ok(()) => Reply::Job(self.0.state.progress()),
            Err(JobRequestFailure(error)) => Reply::Failed(error),
        };
        reply(&mut stream, &answer).await;
    }

    /// Begins the job unless it has begun. A task of keeper's own runs it, so a lost stream does not end it.
    fn begin(&self, begin: BeginJob) -> Result<(), JobRequestFailure> {
        check_environment(&begin.env)?;
        // A request that is repeated after a lost link finds the document and begins nothing.
        let new = self.0.state.begin_once(|| new_document(&self.0, &begin))?;
        let Some(document) = new else { return Ok(()) };
        let context = self.0.clone();
        self.0.core.tasks.spawn(async move {
            // The document is on disk: a keeper that is killed from here on is followed by one that starts or follows the same job.
            let outcome = match begin.work {
                JobWork::Shell { .. } | JobWork::Gui { .. } => run::start_main(&context, document).await,
                JobWork::Session => run::run_session(&context, document).await,
                JobWork::Task => task::run(&context, document).await,
                JobWork::Kernel { language, code } => kernel::start(&context, document, language, code).await,
            };
            context.core.stop_on(outcome);
        });
        Ok(())
    }

    /// Stops the clocks of the job.
    fn pause(&self) -> Result<(), JobRequestFailure> {
        Ok(self.0.state.change(|document| document.paused = true)?)
    }

    /// Starts the clocks of a paused job again, with this much time left.
    fn resume(&self, timeout_ms: u64) -> Result<(), JobRequestFailure> {
        Ok(self.0.state.change(|document| {
            if std::mem::take(&mut document.paused) {
                document.deadline_ms = boot_ms().saturating_add(timeout_ms);
                document.idle_from_ms = boot_ms();
            }
        })?)
    }

    /// Takes up the job of the earlier keeper. `execution` is the part of it that runs in a kernel.
    pub(super) fn recover(
        &self,
        main: MainProcess,
        execution: Option<Arc<Execution>>,
    ) -> Result<(), SpoolError> {
        let context = &self.0;
        let Some(document) = context.state.document() else { return Ok(()) };
        if let Some(exit) = document.exit {
            // The end is in the document. Its event may be missing: keeper may have been killed between the two.
            context.events.ended(exit, context.state.offsets())?;
            if document.work.is_a_process() {
                let argv = run::argv(context, &document.work);
                let pid = if let MainProcess::Found(main) = &main { main.spawned.pid } else { 0 };
                let output = context.state.outputs().clone();
                context.processes.insert(ManagedProcess::over(ProcessId::main(), pid, argv, exit, output));
            }
            return run::release_main(context, main, document.keep);
        }
        let context = context.clone();
        self.0.core.tasks.spawn(async move {
            let outcome = go_on(&context, document, main, execution).await;
            context.core.stop_on(outcome);
        });
        Ok(())
    }
}

/// Follows a job that had not ended when the earlier keeper died.
async fn go_on(
    context: &Arc<JobContext>,
    document: JobDocument,
    main: MainProcess,
    execution: Option<Arc<Execution>>,
) -> Result<(), SpoolError> {
    match main {
        _ if document.work == StoredWork::Session => run::run_session(context, document).await,
        _ if document.work == StoredWork::Task => task::run(context, document).await,
        _ if !document.work.is_a_process() => match execution {
            Some(execution) => kernel::follow(context, document, &execution).await,
            None => run::interrupted(context, &document).await,
        },
        MainProcess::Found(main) => {
            let Survivor { command, spawned, exit } = *main;
            let raw_exit = context.processes.exits().expect(&ProcessId::main());
            if let Some(exit) = exit {
                context.processes.exits().deliver(exit);
            }
            run::run_main(context, document, &command, spawned, raw_exit).await
        }
        // The earlier keeper died between writing the document and the fork: this is the first start, not a second one.
        MainProcess::Never if document.ending.is_none() => run::start_main(context, document).await,
        MainProcess::Never | MainProcess::Lost => run::interrupted(context, &document).await,
    }
}

/// Prepares the files of a job that begins, and its document.
fn new_document(context: &JobContext, begin: &BeginJob) -> Result<JobDocument, JobRequestFailure> {
    let work = match &begin.work {
        JobWork::Shell { code } | JobWork::Gui { code } | JobWork::Kernel { code, .. }
            if code.len() > CODE_BYTES =>
        {
            return Err(GuestError::new(GuestErrorCode::LimitReached, "the script is too long").into());
        }
        JobWork::Shell { code } => {
            script::write(&context.scripts, code).map_err(|error| internal("write the script", &error))?;
            StoredWork::Shell
        }
        JobWork::Gui { code } => {
            script::write(&context.scripts, code).map_err(|error| internal("write the script", &error))?;
            StoredWork::Gui
        }
        JobWork::Kernel { .. } => StoredWork::Kernel { execution: None },
        JobWork::Session => StoredWork::Session,
        JobWork::Task if context.agent_socket.is_some() => StoredWork::Task,
        JobWork::Task => {
            return Err(
                GuestError::new(GuestErrorCode::BadRequest, "this machine has no loop for tasks").into()
            );
        }
    };
    let mut env = begin.env.clone();
    if let Some(pem) = &begin.trust {
        trust::write(&context.scripts, pem, &mut env)
            .map_err(|error| internal("write the certificates", &error))?;
    }
    Ok(JobDocument {
        work,
        env,
        deadline_ms: boot_ms().saturating_add(begin.timeout_ms),
        idle_timeout_ms: begin.idle_timeout_ms,
        paused: false,
        idle_from_ms: 0,
        keep: begin.keep,
        ending: None,
        exit: None,
    })
}

/// A request about the job that failed.
struct JobRequestFailure(GuestError);

impl From<GuestError> for JobRequestFailure {
    fn from(error: GuestError) -> Self {
        Self(error)
    }
}

impl From<SpoolError> for JobRequestFailure {
    fn from(error: SpoolError) -> Self {
        Self(GuestError::new(GuestErrorCode::Internal, error.to_string()))
    }
}

fn internal(what: &str, error: &std::io::Error) -> JobRequestFailure {
    JobRequestFailure(GuestError::new(GuestErrorCode::Internal, format!("{what}: {error}")))
}
