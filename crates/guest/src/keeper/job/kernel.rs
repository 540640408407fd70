//! The job as code in a kernel: its output is the job's, its limits are the job's, and its end is the job's.

use std::sync::Arc;

use sandyard_protocol::{EndReason, ExecutionError, Exit, Language, Outcome};

use super::{Document, run};
use crate::keeper::Keeper;
use crate::keeper::clock::{boot_ms, milliseconds, sleep_until};
use crate::keeper::kernels::{self, Execution, Finished};
use crate::keeper::processes::Ending;
use crate::keeper::spool::SpoolError;
use crate::limits::{KILL_AGAIN, TERMINATION_GRACE};

/// Begins the code.
pub(super) async fn start(
    keeper: &Arc<Keeper>,
    document: Document,
    language: Language,
    code: String,
) -> Result<(), SpoolError> {
    match kernels::begin_job(keeper, language, code) {
        Ok(execution) => follow(keeper, document, &execution).await,
        Err(error) => {
            keeper.events.note(format!("the job could not be started: {error}"))?;
            // As shells say that a command could not be executed.
            run::finish(keeper, Exit { code: 126, signal: None, reason: EndReason::Own }).await
        }
    }
}

/// Follows it to its end, within the job's limits.
pub(super) async fn follow(
    keeper: &Arc<Keeper>,
    document: Document,
    execution: &Execution,
) -> Result<(), SpoolError> {
    keeper.events.started()?;
    let mut changes = keeper.job.changed.subscribe();
    let (mut asked, mut kill_ms) = (None, None);
    let finished = loop {
        let wish = keeper.job.document().as_ref().and_then(|document| document.ending);
        if let Some(wish) = wish.filter(|wish| asked != Some(*wish)) {
            kernels::end_job_kernel(keeper, execution, wish);
            asked = Some(wish);
            kill_ms = Some(wish.kill_at_ms);
        }
        tokio::select! {
            finished = execution.ended() => break finished,
            _ = changes.changed() => {}
            () = sleep_until(Some(document.deadline_ms)), if asked.is_none() => limit(keeper, EndReason::Timeout)?,
            () = silence(keeper, &document), if asked.is_none() => limit(keeper, EndReason::IdleTimeout)?,
            () = sleep_until(kill_ms), if asked.is_some() => {
                let _ = keeper.host.kill_everything().await;
                kill_ms = Some(boot_ms() + milliseconds(KILL_AGAIN));
            }
        }
    };
    for output in &keeper.job.output {
        output.close();
    }
    let exit = exit_of(&finished, asked);
    kernels::flush_notebooks(keeper).await;
    if !document.keep {
        let _ = keeper.host.kill_everything().await;
    }
    run::finish(keeper, exit).await
}

fn limit(keeper: &Keeper, reason: EndReason) -> Result<(), SpoolError> {
    let ending = Ending::after(reason, milliseconds(TERMINATION_GRACE));
    keeper.job.change(&keeper.spool, |document| document.ending = Some(ending.merge(document.ending)))
}

/// Returns when the job said nothing for too long.
async fn silence(keeper: &Keeper, document: &Document) {
    let Some(limit) = document.idle_timeout_ms.map(std::time::Duration::from_millis) else {
        return std::future::pending().await;
    };
    loop {
        let quiet = keeper.job.output.iter().map(|output| output.quiet_for()).min().unwrap_or_default();
        match limit.checked_sub(quiet) {
            Some(left) if !left.is_zero() => tokio::time::sleep(left).await,
            _ => return,
        }
    }
}

/// The job's exit: as a script's would be.
fn exit_of(finished: &Finished, ending: Option<Ending>) -> Exit {
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
