//! Turns the exit of a process into a last state, an error code and a reason in words.

use sandyard_protocol::{EndReason, Exit};
use sandyard_sandbox::driver::Usage;

use crate::job::EffectiveLimits;
use crate::job::FailureCode;
use crate::job::JobState;
use crate::job::{JobFailure, JobKind};
use crate::job::{JobRow, TaskRow};
use crate::yard::JobVerdict;

/// The last state of a job, with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JobOutcome {
    pub(crate) state: JobState,
    pub(crate) reason: Option<String>,
    pub(crate) failure: Option<JobFailure>,
    pub(crate) exit_code: Option<i32>,
}

/// Facts about the end of a job beside the exit of its process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct EndCircumstances<'a> {
    pub(crate) kind: JobKind,
    pub(crate) limits: &'a EffectiveLimits,
    pub(crate) usage: Option<&'a Usage>,
    pub(crate) disk_full: bool,
}

impl JobOutcome {
    /// Returns the outcome of an exit.
    pub(crate) fn of(exit: Exit, around: EndCircumstances<'_>) -> Self {
        let outcome = match exit.reason {
            EndReason::Own => own_end(exit, around),
            EndReason::Timeout => time_limit(around),
            EndReason::IdleTimeout => idle_limit(around),
            EndReason::Cancelled => Self::cancelled(),
        };
        // A session has no process of its own, so no exit code worth showing.
        let exit_code = (around.kind != JobKind::Session).then_some(exit.code);
        Self { exit_code, ..outcome }
    }

    /// Returns the outcome of a task's loop, whose result is in the journal.
    pub(crate) fn of_task(exit: Exit, around: EndCircumstances<'_>, task: &TaskRow) -> Self {
        let outcome = match (exit.reason, exit.code, &task.gave_up, &task.summary) {
            (EndReason::Own, 0, _, Some(_)) => Self::succeeded(None),
            (EndReason::Own, _, Some(reason), _) => {
                let hint =
                    task.model_address.as_ref().map(|address| format!("the model was asked at {address}"));
                Self::failed(FailureCode::GaveUp, reason.clone(), hint.as_deref())
            }
            (EndReason::Own, 0, None, None) => {
                Self::failed(FailureCode::AgentFailed, "the agent ended without saying what it did", None)
            }
            _ => return Self::of(exit, around),
        };
        Self { exit_code: Some(exit.code), ..outcome }
    }

    /// The job's driver is not configured in this server.
    pub(crate) fn driver_gone(row: &JobRow) -> Self {
        let name = row.driver.as_deref().unwrap_or("?");
        let message = format!("its driver `{name}` is not used by this server any more");
        Self::failed(
            FailureCode::NoDriver,
            message,
            Some("start the server with that driver, or with --driver auto"),
        )
    }

    /// The outcome of a task whose question got no answer within `seconds`.
    pub(crate) fn unanswered(seconds: u64) -> Self {
        let message = format!("nobody answered its question within {seconds} s");
        let hint = "answer with `sandyard reply`, or allow more time with ask_timeout_s";
        Self::new(JobState::TimedOut, message, FailureCode::NoAnswer, Some(hint))
    }

    /// The outcome of a job that a client cancelled. Also used if the guest did not confirm the end.
    pub(crate) fn cancelled() -> Self {
        Self::new(JobState::Cancelled, "cancelled by request", FailureCode::Cancelled, None)
    }

    /// The outcome of a job that the server ends at once.
    pub(crate) fn of_verdict(verdict: JobVerdict) -> Self {
        match verdict {
            JobVerdict::Cancelled => Self::cancelled(),
            JobVerdict::DiskExhausted { used_mib } => Self::failed(
                FailureCode::DiskExhausted,
                format!(
                    "the yard's disk ran low, and this job's sandbox used most of it ({used_mib} MiB); its files could not be saved"
                ),
                Some(
                    "ask for less with limits.disk_mib, or have the operator free space on the disk of the data directory",
                ),
            ),
        }
    }

    /// The outcome of a job whose disk became read-only.
    pub(crate) fn disk_lost() -> Self {
        Self::failed(
            FailureCode::DiskLost,
            "the disk of its sandbox became read-only, because the host lost writes to it; the files that had reached it were saved",
            Some(
                "look for a full or failing disk on the host, and schedule the job again if it may run twice",
            ),
        )
    }

    /// The outcome of a job that reached `timeout_s`. A session that reaches it has succeeded.
    pub(crate) fn timed_out(around: EndCircumstances<'_>) -> Self {
        time_limit(around)
    }

    /// The outcome of a job that failed for a reason outside its process.
    pub(crate) fn failed(code: FailureCode, message: impl Into<String>, hint: Option<&str>) -> Self {
        Self::new(JobState::Failed, message, code, hint)
    }

    fn new(state: JobState, reason: impl Into<String>, code: FailureCode, hint: Option<&str>) -> Self {
        let reason = reason.into();
        let failure = JobFailure { code, message: reason.clone(), hint: hint.map(str::to_owned) };
        Self { state, reason: Some(reason), failure: Some(failure), exit_code: None }
    }

    fn succeeded(reason: Option<String>) -> Self {
        Self { state: JobState::Succeeded, reason, failure: None, exit_code: None }
    }
}

fn own_end(exit: Exit, around: EndCircumstances<'_>) -> JobOutcome {
    if exit.code == 0 && exit.signal.is_none() {
        return JobOutcome::succeeded(None);
    }
    let machine = &around.limits.machine;
    let usage = around.usage.copied().unwrap_or_default();
    // The limits come before signal and exit code: the kernel's kill of one child often shows only as a nonzero exit of its
    // parent.
    if usage.memory_kills > 0 {
        let message = format!("out of memory (limit {} MiB)", machine.memory_mib);
        return JobOutcome::failed(
            FailureCode::OutOfMemory,
            message,
            Some("ask for more with limits.memory_mib"),
        );
    }
    if usage.pids_refused > 0 {
        let message = format!("process limit reached (limit {})", machine.pids);
        return JobOutcome::failed(FailureCode::ProcessLimit, message, Some("ask for more with limits.pids"));
    }
    if around.disk_full {
        let message = format!("disk full (limit {} MiB)", machine.disk_mib);
        return JobOutcome::failed(FailureCode::DiskFull, message, Some("ask for more with limits.disk_mib"));
    }
    match exit.signal {
        Some(signal) => {
            let message = format!("killed by signal {signal}{}", name(signal));
            JobOutcome::failed(FailureCode::KilledBySignal, message, None)
        }
        None => JobOutcome::failed(FailureCode::NonzeroExit, format!("exited with code {}", exit.code), None),
    }
}

fn time_limit(around: EndCircumstances<'_>) -> JobOutcome {
    let seconds = around.limits.timeout_s;
    if around.kind == JobKind::Session {
        return JobOutcome::succeeded(Some(format!("reached its time limit of {seconds} s")));
    }
    let message = format!("timed out after {seconds} s{}", strain(around));
    JobOutcome::new(
        JobState::TimedOut,
        message,
        FailureCode::TimedOut,
        Some("ask for more with limits.timeout_s"),
    )
}

/// Names a limit that the job met before its time was up, because it is the likelier cause.
fn strain(around: EndCircumstances<'_>) -> String {
    let usage = around.usage.copied().unwrap_or_default();
    match usage {
        Usage { memory_kills: 1.., .. } => {
            format!(", after meeting its memory limit of {} MiB", around.limits.machine.memory_mib)
        }
        Usage { pids_refused: 1.., .. } => {
            format!(", after meeting its process limit of {}", around.limits.machine.pids)
        }
        _ => String::new(),
    }
}

fn idle_limit(around: EndCircumstances<'_>) -> JobOutcome {
    let seconds = around.limits.idle_timeout_s.unwrap_or_default();
    if around.kind == JobKind::Session {
        return JobOutcome::succeeded(Some(format!("was idle for {seconds} s")));
    }
    let message = format!("timed out after {seconds} s without output");
    JobOutcome::new(
        JobState::TimedOut,
        message,
        FailureCode::IdleTimedOut,
        Some("ask for more with limits.idle_timeout_s"),
    )
}

fn name(signal: i32) -> &'static str {
    match signal {
        1 => " (SIGHUP)",
        2 => " (SIGINT)",
        3 => " (SIGQUIT)",
        4 => " (SIGILL)",
        6 => " (SIGABRT)",
        7 => " (SIGBUS)",
        8 => " (SIGFPE)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV)",
        13 => " (SIGPIPE)",
        15 => " (SIGTERM)",
        24 => " (SIGXCPU)",
        25 => " (SIGXFSZ)",
        31 => " (SIGSYS)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use sandyard_sandbox::driver::Limits;

    use super::*;

    fn outcome(kind: JobKind, exit: Exit, usage: Usage, disk_full: bool) -> JobOutcome {
        let limits = EffectiveLimits {
            machine: Limits::default(),
            timeout_s: 5,
            idle_timeout_s: Some(2),
            recording_mib: 0,
        };
        JobOutcome::of(exit, EndCircumstances { kind, limits: &limits, usage: Some(&usage), disk_full })
    }

    fn exit(code: i32, signal: Option<i32>, reason: EndReason) -> Exit {
        Exit { code, signal, reason }
    }

    #[test]
    fn every_end_has_a_state_and_words() {
        let kills = Usage { memory_kills: 1, ..Usage::default() };
        let forks = Usage { pids_refused: 1, ..Usage::default() };
        let cases = [
            (exit(0, None, EndReason::Own), kills, false, JobState::Succeeded, ""),
            (exit(3, None, EndReason::Own), Usage::default(), false, JobState::Failed, "exited with code 3"),
            (
                exit(137, Some(9), EndReason::Own),
                kills,
                false,
                JobState::Failed,
                "out of memory (limit 2048 MiB)",
            ),
            (
                exit(1, None, EndReason::Own),
                forks,
                false,
                JobState::Failed,
                "process limit reached (limit 1024)",
            ),
            (
                exit(1, None, EndReason::Own),
                Usage::default(),
                true,
                JobState::Failed,
                "disk full (limit 4096 MiB)",
            ),
            (
                exit(139, Some(11), EndReason::Own),
                Usage::default(),
                false,
                JobState::Failed,
                "killed by signal 11 (SIGSEGV)",
            ),
            (
                exit(143, Some(15), EndReason::Timeout),
                Usage::default(),
                false,
                JobState::TimedOut,
                "timed out after 5 s",
            ),
            (
                exit(143, Some(15), EndReason::IdleTimeout),
                Usage::default(),
                false,
                JobState::TimedOut,
                "timed out after 2 s without output",
            ),
            (
                exit(143, Some(15), EndReason::Cancelled),
                Usage::default(),
                false,
                JobState::Cancelled,
                "cancelled by request",
            ),
        ];
        for (exit, usage, disk_full, state, words) in cases {
            let outcome = outcome(JobKind::Shell, exit, usage, disk_full);
            assert_eq!((outcome.state, outcome.reason.as_deref().unwrap_or("")), (state, words));
            assert_eq!(outcome.failure.is_none(), state == JobState::Succeeded);
        }
    }

    #[test]
    fn a_session_at_its_limit_succeeded() {
        for reason in [EndReason::Timeout, EndReason::IdleTimeout] {
            let outcome = outcome(JobKind::Session, exit(0, None, reason), Usage::default(), false);
            assert_eq!(outcome.state, JobState::Succeeded);
            assert_eq!(outcome.exit_code, None);
        }
    }
}
