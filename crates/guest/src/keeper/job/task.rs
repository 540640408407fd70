//! The job as a task: the agent runs until it has finished or given up, and is started again when it is killed.
//!
//! The agent is a process like any other, so it outlives keeper, and the processes it started outlive it. All its state is in
//! the journal on the host, so starting it again repeats nothing. An agent that can't be kept alive ends the job.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sandyard_protocol::{
    AGENT_PROGRAM, AGENT_SOCKET_VARIABLE, EndReason, Exit, GuestError, OutputStream, StartProcess,
};

use super::context::JobContext;
use super::run;
use super::state::JobDocument;
use crate::keeper::clock::{milliseconds, sleep_until};
use crate::keeper::output::capture::{Follower, Piece};
use crate::keeper::processes::{Ending, ManagedProcess};
use crate::keeper::spool::SpoolError;
use crate::limits::{LOOP_STARTS, STEADY_LOOP, TERMINATION_GRACE};

/// Bytes of an agent's standard error that a note about its end quotes.
const LAST_WORDS_BYTES: usize = 400;

/// Runs the task to its end. After a restart of keeper, goes on with the agent that runs.
pub(super) async fn run(context: &Arc<JobContext>, document: JobDocument) -> Result<(), SpoolError> {
    context.events.started()?;
    context.state.close_output();
    let (exit, ending) = keep_running(context).await?;
    // Both need processes of the machine, so before everything is killed.
    context.observer.before_end().await;
    context.kernels.flush_notebooks().await;
    context.end_background(document.keep).await;
    let reason = ending.map_or(EndReason::Own, |ending| ending.reason);
    run::finish(context, Exit { reason, ..exit }).await
}

/// Keeps an agent running until one is done, or the job must end.
async fn keep_running(context: &Arc<JobContext>) -> Result<(Exit, Option<Ending>), SpoolError> {
    let mut next = context.processes.newest(AGENT_PROGRAM);
    let mut starts = 0;
    loop {
        let began = Instant::now();
        let process = match next.take() {
            Some(process) => process,
            None => match start(context).await {
                Ok(process) => process,
                Err(error) => {
                    context.events.note(format!("the agent could not be started: {error}"))?;
                    // The code by which shells report a command that could not be executed.
                    return Ok((Exit { code: 126, signal: None, reason: EndReason::Own }, None));
                }
            },
        };
        let (exit, ending) = follow(context, &process).await?;
        // 0 and 1 are the agent's own ends: finished and given up. Every other code asks for a restart or is a crash.
        let is_over = exit.signal.is_none() && matches!(exit.code, 0 | 1);
        if is_over || ending.is_some() {
            return Ok((exit, ending));
        }
        starts = if began.elapsed() > STEADY_LOOP { 1 } else { starts + 1 };
        let words = last_words(&process);
        if starts > LOOP_STARTS {
            context
                .events
                .note(format!("the agent can't be kept running (exit code {}){words}", exit.code))?;
            return Ok((exit, None));
        }
        context
            .events
            .note(format!("the agent stopped (exit code {}) and is started again{words}", exit.code))?;
        tokio::time::sleep(Duration::from_millis(50 << starts)).await;
    }
}

async fn start(context: &Arc<JobContext>) -> Result<Arc<ManagedProcess>, GuestError> {
    let socket = context.agent_socket.as_ref().map(|path| path.to_string_lossy().into_owned());
    let env = socket.map(|socket| (AGENT_SOCKET_VARIABLE.to_owned(), socket)).into_iter().collect();
    let argv = vec![AGENT_PROGRAM.to_owned()];
    context.processes.start(StartProcess { argv, env, ..StartProcess::default() }).await
}

/// Follows an agent to its end, within the job's limits.
async fn follow(
    context: &JobContext,
    process: &ManagedProcess,
) -> Result<(Exit, Option<Ending>), SpoolError> {
    let mut changes = context.state.changes();
    loop {
        let ending = context.state.ending();
        if let Some(ending) = ending {
            process.end(ending);
        }
        let limits = *context.state.limits().borrow();
        // A change of the limits is a change of the document, so the loop sees it. No branch is polled first. Cancelling one loses
        // nothing: the exit and the changes are watches, and the sleeps are computed anew.
        tokio::select! {
            exit = process.ended() => return Ok((exit, ending)),
            _ = changes.changed() => {}
            () = sleep_until(limits.deadline_ms), if ending.is_none() => end(context, EndReason::Timeout)?,
            () = context.activity.unused_for(limits.idle_timeout_ms), if ending.is_none() => {
                end(context, EndReason::IdleTimeout)?;
            }
        }
    }
}

fn end(context: &JobContext, reason: EndReason) -> Result<(), SpoolError> {
    context.state.end(Ending::after(reason, milliseconds(TERMINATION_GRACE)))
}

/// The end of an agent's standard error, for the note about it.
fn last_words(process: &ManagedProcess) -> String {
    let capture = process.output(OutputStream::Stderr).clone();
    let from = capture.end().saturating_sub(LAST_WORDS_BYTES as u64);
    let mut buffer = [0; LAST_WORDS_BYTES];
    match Follower::new(capture, from).read(&mut buffer) {
        Ok(Piece::Bytes { count, .. }) => format!(": {}", String::from_utf8_lossy(&buffer[..count]).trim()),
        _ => String::new(),
    }
}
