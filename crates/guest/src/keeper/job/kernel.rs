//! The job as code in a kernel: the code's output, limits and end are those of the job.

use std::sync::Arc;

use sandyard_protocol::{EndReason, ExecutionError, Exit, Language, Outcome};

use super::context::JobContext;
use super::run;
use super::state::JobDocument;
use crate::keeper::clock::{boot_ms, milliseconds, sleep_until};
use crate::keeper::kernels::{Execution, FinishedExecution};
use crate::keeper::processes::Ending;
use crate::keeper::spool::SpoolError;
use crate::limits::{KILL_AGAIN, TERMINATION_GRACE};

/// Sends the code and follows it.
pub(super) async fn start(
    context: &Arc<JobContext>,
    document: JobDocument,
    language: Language,
    code: String,
) -> Result<(), SpoolError> {
    match context.kernels.begin_job(language, code) {
        Ok(execution) => follow(context, document, &execution).await,
        Err(error) => {
            context.events.note(format!("the job could not be started: {error}"))?;
            // The code by which shells report a command that could not be executed.
            run::finish(context, Exit { code: 126, signal: None, reason: EndReason::Own }).await
        }
    }
}

/// Follows the code to its end, within the job's limits.
pub(super) async fn follow(
    context: &Arc<JobContext>,
    document: JobDocument,
    execution: &Execution,
) -> Result<(), SpoolError> {
    context.events.started()?;
    let mut changes = context.state.changes();
    let (mut asked, mut kill_ms) = (None, None);
    let finished = loop {
        let wish = context.state.ending();
        if let Some(wish) = wish.filter(|wish| asked != Some(*wish)) {
            context.kernels.end_job(execution, wish);
            asked = Some(wish);
            kill_ms = Some(wish.kill_at_ms);
        }
        // Read anew each time: the host may extend the job's time.
        let deadline_ms = context.state.limits().borrow().deadline_ms;
        // Limits count only until an end is requested: from then on the grace period decides, and the kill is repeated until the
        // code has ended. No branch is polled first. Cancelling one loses nothing: `ended` and `changes` remember their value, and the
        // sleeps are computed anew from fixed times.
        tokio::select! {
            finished = execution.ended() => break finished,
            _ = changes.changed() => {}
            () = sleep_until(deadline_ms), if asked.is_none() => limit(context, EndReason::Timeout)?,
            () = silence(context, &document), if asked.is_none() => limit(context, EndReason::IdleTimeout)?,
            () = sleep_until(kill_ms), if asked.is_some() => {
                let _ = context.core.host.kill_everything().await;
                kill_ms = Some(boot_ms() + milliseconds(KILL_AGAIN));
            }
        }
    };
    // Nothing appends any more: the code has ended. The offsets in the end event are final from here on.
    context.state.close_output();
    let exit = exit_of(&finished, asked);
    // The notebooks are written by a worker, so before everything is killed.
    context.kernels.flush_notebooks().await;
    context.end_background(document.keep).await;
    run::finish(context, exit).await
}

fn limit(context: &JobContext, reason: EndReason) -> Result<(), SpoolError> {
    context.state.end(Ending::after(reason, milliseconds(TERMINATION_GRACE)))
}

/// Returns when the job printed nothing for too long.
async fn silence(context: &JobContext, document: &JobDocument) {
    let Some(limit) = document.idle_timeout_ms.map(std::time::Duration::from_millis) else {
        return std::future::pending().await;
    };
    loop {
        let quiet = context.state.outputs().iter().map(|output| output.quiet_for()).min().unwrap_or_default();
        match limit.checked_sub(quiet) {
            Some(left) if !left.is_zero() => tokio::time::sleep(left).await,
            _ => return,
        }
    }
}

/// The exit that a script with the same end would have.
fn exit_of(finished: &FinishedExecution, ending: Option<Ending>) -> Exit {
    let reason = ending.map_or(EndReason::Own, |ending| ending.reason);
    let own = |code| Exit { code, signal: None, reason };
    if let Some(exit) = finished.end.exit {
        return Exit { reason, ..exit };
    }
    match finished.end.outcome {
        Outcome::Ok => own(0),
        Outcome::Lost => Exit { code: 137, signal: Some(9), reason },
        Outcome::Interrupted => own(130),
        _ => own(finished.error.as_ref().map_or(1, code_of)),
    }
}

/// `sys.exit(n)` in Python is n, without an argument 0, with any other 1; every other exception is 1.
fn code_of(error: &ExecutionError) -> i32 {
    if error.name != "SystemExit" {
        return 1;
    }
    match error.value.trim() {
        "" | "None" | "False" => 0,
        "True" => 1,
        value => value.parse::<i64>().map_or(1, |code| i32::try_from(code.rem_euclid(256)).unwrap_or(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_and_exits_have_the_codes_of_a_script() {
        let error = |name: &str, value: &str| {
            code_of(&ExecutionError { name: name.into(), value: value.into(), traceback: vec![] })
        };
        assert_eq!(error("ValueError", "7"), 1);
        for (value, code) in
            [("", 0), ("None", 0), ("3", 3), ("0", 0), ("256", 0), ("-1", 255), ("so sorry", 1)]
        {
            assert_eq!(error("SystemExit", value), code, "{value}");
        }
    }
}
