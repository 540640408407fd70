//! The job while it runs: its process or its session, and its end. Each step may be repeated by the next keeper.

use std::sync::Arc;

use sandyard_protocol::{EndReason, Exit, ProcessId};
use tokio::sync::watch;

use super::{Document, Main, Work, script};
use crate::keeper::Keeper;
use crate::keeper::clock::sleep_until;
use crate::keeper::desktop::{self, hands};
use crate::keeper::kernels;
use crate::keeper::processes::{Descriptors, Process, Scope, Supervision, main_command};
use crate::keeper::pump::Source;
use crate::keeper::spool::SpoolError;
use crate::limits::JOB_PIPE_BYTES;
use crate::process_host::{Command, OWN_PROGRAM, RawExit, SpawnError, Spawned};

pub(super) async fn start_shell(keeper: &Arc<Keeper>, document: Document) -> Result<(), SpoolError> {
    let raw_exit = keeper.exits.expect(&ProcessId::main());
    let command = main_command(keeper, argv(keeper, &document.work));
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
            finish(keeper, Exit { code: 126, signal: None, reason: EndReason::Own }).await
        }
    }
}

/// How the job's process is started.
pub(super) fn argv(keeper: &Keeper, work: &Work) -> Vec<String> {
    let script = script::path(keeper).to_string_lossy().into_owned();
    if *work == Work::Gui {
        vec![OWN_PROGRAM.to_owned(), hands::job::ROLE.to_owned(), script]
    } else {
        vec!["bash".to_owned(), script]
    }
}

/// Follows the main process to its end.
pub(super) async fn run_shell(
    keeper: &Arc<Keeper>,
    document: Document,
    command: &Command,
    spawned: Spawned,
    raw_exit: watch::Receiver<Option<RawExit>>,
) -> Result<(), SpoolError> {
    let failed =
        |error| SpoolError::new("take over the output of", &keeper.spool.process(&ProcessId::main()), error);
    widen(&spawned);
    let descriptors = Descriptors::new(spawned, false).map_err(failed)?;
    let (process, sources) = Process::running(command, descriptors, keeper.job.output.clone());
    // Before its end is looked at: it may have followed the wish while no keeper lived.
    if let Some(ending) = document.ending {
        process.end(ending);
    }
    keeper.processes.insert(process.clone());
    keeper.events.started()?;
    let supervision = Supervision {
        process: process.clone(),
        sources,
        raw_exit,
        limits: keeper.job.limits.subscribe(),
        scope: Scope::Machine { keep: document.keep },
        witness: Some(keeper.clone()),
    };
    let (exit, held) = tokio::select! {
        ended = supervision.run(keeper.host.as_ref()) => ended,
        () = forward_endings(keeper, &process) => return Ok(()),
    };
    finish(keeper, exit).await?;
    process.set_exit(exit);
    keeper.exits.unexpect(&ProcessId::main());
    if document.keep && !held.is_empty() {
        discard_then_forget(keeper, held);
    } else {
        let _ = keeper.host.forget(&ProcessId::main()).await;
    }
    Ok(())
}

/// A flood of output costs a switch between the job and keeper each time the pipe is full. The kernel may refuse; then it
/// merely costs more.
fn widen(spawned: &Spawned) {
    for pipe in [Some(&spawned.stdout), spawned.stderr.as_ref()].into_iter().flatten() {
        let _ = rustix::pipe::fcntl_setpipe_size(pipe, JOB_PIPE_BYTES);
    }
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
pub(super) async fn run_session(keeper: &Arc<Keeper>, document: Document) -> Result<(), SpoolError> {
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
            () = keeper.in_use.unused_for(document.idle_timeout_ms) => break EndReason::IdleTimeout,
            _ = changes.changed() => {}
        }
    };
    desktop::last_look(keeper).await;
    kernels::flush_notebooks(keeper).await;
    if !document.keep {
        let _ = keeper.host.kill_everything().await;
    }
    finish(keeper, Exit { code: 0, signal: None, reason }).await
}

/// The end: known, then told. Each step may be repeated by the next keeper.
pub(super) async fn finish(keeper: &Arc<Keeper>, exit: Exit) -> Result<(), SpoolError> {
    kernels::flush_notebooks(keeper).await;
    keeper.job.change(&keeper.spool, |document| document.exit = Some(exit))?;
    keeper.events.ended(exit, keeper.job.offsets())?;
    script::remove(keeper);
    Ok(())
}

/// After the end nothing of the main process is needed but, for what it left running, somebody who reads.
pub(super) fn release_main(keeper: &Arc<Keeper>, main: Main, keep: bool) -> Result<(), SpoolError> {
    let Main::Found(main) = main else { return Ok(()) };
    if !keep {
        keeper.forget_later(ProcessId::main());
        return Ok(());
    }
    if let Ok(descriptors) = Descriptors::new(main.spawned, false) {
        discard_then_forget(keeper, descriptors.into_sources());
    }
    Ok(())
}

fn discard_then_forget(keeper: &Arc<Keeper>, sources: Vec<Source>) {
    let owner = keeper.clone();
    keeper.tasks.spawn(async move {
        for source in sources {
            source.discard().await;
        }
        let _ = owner.host.forget(&ProcessId::main()).await;
    });
}

pub(super) async fn interrupted(keeper: &Arc<Keeper>, document: &Document) -> Result<(), SpoolError> {
    keeper.events.note("the job was interrupted while it was being started".into())?;
    let reason = document.ending.map_or(EndReason::Own, |ending| ending.reason);
    finish(keeper, Exit { code: 137, signal: Some(9), reason }).await
}

fn describe(error: &SpawnError) -> String {
    match error {
        SpawnError::Refused { what, source } => format!("{what}: {source}"),
        SpawnError::Gone => error.to_string(),
    }
}
