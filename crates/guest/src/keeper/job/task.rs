//! The job as a task: the loop runs until it has finished or given up, and is started again when it is killed.
//!
//! The loop is a process like any other, so it outlives keeper, and what it started outlives it. All it knows is in the
//! journal on the host, so starting it again repeats nothing. One that can't be kept alive ends the job.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sandyard_protocol::{
    AGENT_PROGRAM, AGENT_SOCKET_VARIABLE, EndReason, Exit, GuestError, OutputStream, StartProcess,
};

use super::{Document, run};
use crate::keeper::Keeper;
use crate::keeper::capture::{Follower, Piece};
use crate::keeper::clock::{milliseconds, sleep_until};
use crate::keeper::desktop;
use crate::keeper::kernels;
use crate::keeper::processes::{self, Ending, Process};
use crate::keeper::spool::SpoolError;
use crate::limits::{LOOP_STARTS, STEADY_LOOP, TERMINATION_GRACE};

/// What is told of the last words of a loop.
const LAST_WORDS: usize = 400;

/// Runs the task to its end; also after keeper's own restart.
pub(super) async fn run(keeper: &Arc<Keeper>, document: Document) -> Result<(), SpoolError> {
    keeper.events.started()?;
    for output in &keeper.job.output {
        output.close();
    }
    let (exit, ending) = keep_running(keeper).await?;
    desktop::last_look(keeper).await;
    kernels::flush_notebooks(keeper).await;
    if !document.keep {
        let _ = keeper.host.kill_everything().await;
    }
    let reason = ending.map_or(EndReason::Own, |ending| ending.reason);
    run::finish(keeper, Exit { reason, ..exit }).await
}

/// Has a loop run until one is done, or the job must end.
async fn keep_running(keeper: &Arc<Keeper>) -> Result<(Exit, Option<Ending>), SpoolError> {
    let mut next = keeper.processes.newest(AGENT_PROGRAM);
    let mut starts = 0;
    loop {
        let began = Instant::now();
        let process = match next.take() {
            Some(process) => process,
            None => match start(keeper).await {
                Ok(process) => process,
                Err(error) => {
                    keeper.events.note(format!("the agent could not be started: {error}"))?;
                    // As shells say that a command could not be executed.
                    return Ok((Exit { code: 126, signal: None, reason: EndReason::Own }, None));
                }
            },
        };
        let (exit, ending) = follow(keeper, &process).await?;
        let is_over = exit.signal.is_none() && matches!(exit.code, 0 | 1);
        if is_over || ending.is_some() {
            return Ok((exit, ending));
        }
        starts = if began.elapsed() > STEADY_LOOP { 1 } else { starts + 1 };
        let words = last_words(&process);
        if starts > LOOP_STARTS {
            keeper
                .events
                .note(format!("the agent can't be kept running (exit code {}){words}", exit.code))?;
            return Ok((exit, None));
        }
        keeper
            .events
            .note(format!("the agent stopped (exit code {}) and is started again{words}", exit.code))?;
        tokio::time::sleep(Duration::from_millis(50 << starts)).await;
    }
}

async fn start(keeper: &Arc<Keeper>) -> Result<Arc<Process>, GuestError> {
    let socket = keeper.config.agent.as_ref().map(|place| place.socket.to_string_lossy().into_owned());
    let env = socket.map(|socket| (AGENT_SOCKET_VARIABLE.to_owned(), socket)).into_iter().collect();
    let argv = vec![AGENT_PROGRAM.to_owned()];
    processes::start(keeper, StartProcess { argv, env, ..StartProcess::default() }).await
}

/// Follows a loop to its end, within the job's limits.
async fn follow(keeper: &Keeper, process: &Process) -> Result<(Exit, Option<Ending>), SpoolError> {
    let mut changes = keeper.job.changed.subscribe();
    loop {
        let ending = keeper.job.document().as_ref().and_then(|document| document.ending);
        if let Some(ending) = ending {
            process.end(ending);
        }
        let limits = *keeper.job.limits.borrow();
        tokio::select! {
            exit = process.ended() => return Ok((exit, ending)),
            _ = changes.changed() => {}
            () = sleep_until(limits.deadline_ms), if ending.is_none() => end(keeper, EndReason::Timeout)?,
            () = keeper.in_use.unused_for(limits.idle_timeout_ms), if ending.is_none() => {
                end(keeper, EndReason::IdleTimeout)?;
            }
        }
    }
}

fn end(keeper: &Keeper, reason: EndReason) -> Result<(), SpoolError> {
    let ending = Ending::after(reason, milliseconds(TERMINATION_GRACE));
    keeper.job.change(&keeper.spool, |document| document.ending = Some(ending.merge(document.ending)))
}

/// The end of what a loop wrote to its standard error, for the note about it.
fn last_words(process: &Process) -> String {
    let capture = process.output(OutputStream::Stderr).clone();
    let from = capture.end().saturating_sub(LAST_WORDS as u64);
    let mut buffer = [0; LAST_WORDS];
    match Follower::new(capture, from).read(&mut buffer) {
        Ok(Piece::Bytes { count, .. }) => format!(": {}", String::from_utf8_lossy(&buffer[..count]).trim()),
        _ => String::new(),
    }
}
