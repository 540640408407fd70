//! The job while it runs: its process or its session, and its end. Each step may be repeated by the next keeper.

use std::sync::Arc;

use sandyard_protocol::{EndReason, Exit, ProcessId};
use tokio::sync::watch;

use super::context::JobContext;
use super::script;
use super::state::{JobDocument, StoredWork};
use crate::keeper::clock::sleep_until;
use crate::keeper::desktop::GUI_JOB_ROLE;
use crate::keeper::output::pump::OutputSource;
use crate::keeper::processes::{KillScope, ManagedProcess, ProcessDescriptors, Supervision};
use crate::keeper::spool::SpoolError;
use crate::limits::JOB_PIPE_BYTES;
use crate::process_host::{Command, OWN_PROGRAM, RawExit, SpawnError, Spawned, Survivor};

/// What became of the main process of the earlier keeper.
#[derive(Debug)]
pub(in crate::keeper) enum MainProcess {
    /// It runs, or has ended and not been forgotten.
    Found(Box<Survivor>),
    /// It ran, but nobody holds its streams.
    Lost,
    /// The spawner never forked it.
    Never,
}

/// Starts the main process and follows it to its end. If it can't be started, the job ends with code 126.
pub(super) async fn start_main(context: &Arc<JobContext>, document: JobDocument) -> Result<(), SpoolError> {
    // Before the fork, so that no exit comes too early.
    let raw_exit = context.processes.exits().expect(&ProcessId::main());
    let command = context.processes.job_command(argv(context, &document.work));
    let spawned = match &command {
        Ok(command) => context.core.host.spawn(command.clone()).await.map_err(|error| describe(&error)),
        Err(error) => Err(error.to_string()),
    };
    match (command, spawned) {
        (Ok(command), Ok(spawned)) => run_main(context, document, &command, spawned, raw_exit).await,
        (_, spawned) => {
            let why = spawned.err().unwrap_or_default();
            context.events.note(format!("the job could not be started: {why}"))?;
            // The code by which shells report a command that could not be executed.
            finish(context, Exit { code: 126, signal: None, reason: EndReason::Own }).await
        }
    }
}

/// Program and arguments of the job's process.
pub(super) fn argv(context: &JobContext, work: &StoredWork) -> Vec<String> {
    let script = script::path(&context.scripts).to_string_lossy().into_owned();
    if *work == StoredWork::Gui {
        vec![OWN_PROGRAM.to_owned(), GUI_JOB_ROLE.to_owned(), script]
    } else {
        vec!["bash".to_owned(), script]
    }
}

/// Follows the main process to its end.
pub(super) async fn run_main(
    context: &Arc<JobContext>,
    document: JobDocument,
    command: &Command,
    spawned: Spawned,
    raw_exit: watch::Receiver<Option<RawExit>>,
) -> Result<(), SpoolError> {
    let failed = |error| {
        SpoolError::new("take over the output of", &context.core.spool.process(&ProcessId::main()), error)
    };
    widen(&spawned);
    let descriptors = ProcessDescriptors::new(spawned, false).map_err(failed)?;
    let (process, sources) = ManagedProcess::running(command, descriptors, context.state.outputs().clone());
    // Before its exit is looked at: the process may have obeyed the request while no keeper lived.
    if let Some(ending) = document.ending {
        process.end(ending);
    }
    context.processes.insert(process.clone());
    context.events.started()?;
    let supervision = Supervision {
        process: process.clone(),
        sources,
        raw_exit,
        limits: context.state.limits(),
        scope: KillScope::Machine { keep: document.keep },
        observer: Some(context.observer.clone()),
        linger: None,
    };
    // `forward_endings` never returns; it passes the host's requests to end on to the process. When the process has ended,
    // dropping it loses nothing: the requests are in the document, and nothing is left to end. `run` is never cancelled, so all
    // output is taken.
    let (exit, held) = tokio::select! {
        ended = supervision.run(context.core.host.as_ref()) => ended,
        () = forward_endings(context, &process) => return Ok(()),
    };
    // The document and the event come before `forget`: once the spawner has forgotten the exit, only the document has it.
    finish(context, exit).await?;
    process.set_exit(exit);
    context.processes.exits().unexpect(&ProcessId::main());
    if document.keep && !held.is_empty() {
        discard_then_forget(context, held);
    } else {
        let _ = context.core.host.forget(&ProcessId::main()).await;
    }
    Ok(())
}

/// Enlarges the pipes: a flood of output costs a switch between the job and keeper each time a pipe is full. The kernel may
/// refuse; then it merely costs more.
fn widen(spawned: &Spawned) {
    for pipe in [Some(&spawned.stdout), spawned.stderr.as_ref()].into_iter().flatten() {
        let _ = rustix::pipe::fcntl_setpipe_size(pipe, JOB_PIPE_BYTES);
    }
}

/// Passes wishes that the job end to its process. Never returns.
async fn forward_endings(context: &JobContext, process: &ManagedProcess) {
    let mut changes = context.state.changes();
    loop {
        let ending = context.state.ending();
        if let Some(ending) = ending {
            process.end(ending);
        }
        if changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// A session has no process of its own: it lasts until its time is up or the host ends it.
pub(super) async fn run_session(context: &Arc<JobContext>, document: JobDocument) -> Result<(), SpoolError> {
    context.events.started()?;
    context.state.close_output();
    let mut changes = context.state.changes();
    let reason = loop {
        let ending = context.state.ending();
        if let Some(ending) = ending {
            break ending.reason;
        }
        // Read anew each time: the host may extend the job's time.
        let limits = *context.state.limits().borrow();
        // The end of the time, the end of use, and changes of the document, which hold the limits and the host's request to end. No
        // branch is polled first. Cancelling one loses nothing: the sleeps are computed anew, and the watch remembers its last value.
        tokio::select! {
            () = sleep_until(limits.deadline_ms) => break EndReason::Timeout,
            () = context.activity.unused_for(limits.idle_timeout_ms) => break EndReason::IdleTimeout,
            _ = changes.changed() => {}
        }
    };
    // Both need processes of the machine, so before everything is killed.
    context.observer.before_end().await;
    context.kernels.flush_notebooks().await;
    context.end_background(document.keep).await;
    finish(context, Exit { code: 0, signal: None, reason }).await
}

/// Stores and reports the end of the job. Each step may be repeated by the next keeper.
pub(super) async fn finish(context: &Arc<JobContext>, exit: Exit) -> Result<(), SpoolError> {
    context.kernels.flush_notebooks().await;
    // The document first: the event is made again from it if keeper is killed in between. The other way round, the next keeper would
    // end a job whose end the host knows already.
    context.state.change(|document| document.exit = Some(exit))?;
    context.events.ended(exit, context.state.offsets())?;
    // After the document: a job that has not ended may still need its script for a first start.
    script::remove(&context.scripts);
    Ok(())
}

/// Forgets the main process of a job that has ended. If its background processes go on, their output is read and discarded until
/// they end, so that a full pipe does not block them.
pub(super) fn release_main(
    context: &Arc<JobContext>,
    main: MainProcess,
    keep: bool,
) -> Result<(), SpoolError> {
    let MainProcess::Found(main) = main else { return Ok(()) };
    if !keep {
        context.core.forget_later(ProcessId::main());
        return Ok(());
    }
    if let Ok(descriptors) = ProcessDescriptors::new(main.spawned, false) {
        discard_then_forget(context, descriptors.into_sources());
    }
    Ok(())
}

fn discard_then_forget(context: &Arc<JobContext>, sources: Vec<OutputSource>) {
    let owner = context.clone();
    context.core.tasks.spawn(async move {
        for source in sources {
            source.discard().await;
        }
        let _ = owner.core.host.forget(&ProcessId::main()).await;
    });
}

/// Ends a job that was interrupted in the middle of its start and must not be started again.
pub(super) async fn interrupted(context: &Arc<JobContext>, document: &JobDocument) -> Result<(), SpoolError> {
    context.events.note("the job was interrupted while it was being started".into())?;
    let reason = document.ending.map_or(EndReason::Own, |ending| ending.reason);
    finish(context, Exit { code: 137, signal: Some(9), reason }).await
}

fn describe(error: &SpawnError) -> String {
    match error {
        SpawnError::Refused { what, source } => format!("{what}: {source}"),
        SpawnError::Gone => error.to_string(),
    }
}
