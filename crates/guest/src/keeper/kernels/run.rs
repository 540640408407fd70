//! One execution in a running kernel, from the request to the last of its output: orders, time limits, and the end of the
//! process, for every backend alike.

use std::time::Instant;

use sandyard_protocol::{ExecutionEnd, Exit, Outcome};
use tokio::sync::mpsc;

use super::backend::{ExecutionVerdict, KernelReport, KernelSessionError, LiveKernel, describe_exit};
use super::kernel::{Execution, KernelHandle, KernelOrder};
use super::sink::ExecutionSink;
use crate::keeper::clock::{sleep_until, sleep_until_instant};
use crate::limits::kernels::{IDLE_TIMEOUT, INTERRUPT_TIMEOUT};
use crate::process_host::ProcessHost;

/// The state of the kernel after an execution.
#[derive(Debug)]
pub(super) enum AfterExecution {
    /// The kernel can run the next code.
    Ready,
    /// Its process is gone, or must be ended; with the reason.
    Lost(String),
    /// An order that ended the execution too.
    Order(KernelOrder),
}

pub(super) struct ExecutionRun<'a> {
    pub(super) host: &'a dyn ProcessHost,
    pub(super) kernel: &'a KernelHandle,
    pub(super) execution: &'a Execution,
    pub(super) live: &'a mut LiveKernel,
    pub(super) orders: &'a mut mpsc::Receiver<KernelOrder>,
}

#[derive(Default)]
struct RunProgress {
    /// The code ended by itself: limits no longer apply.
    answered: bool,
    /// The reason of an interrupt, and the time until which a limit waits for it to take effect.
    interrupted: Option<(Outcome, Option<Instant>)>,
}

enum RunEvent {
    Report(Result<KernelReport, KernelSessionError>),
    Exited(Exit),
    Order(Option<KernelOrder>),
    Unwanted,
    Deadline(Outcome),
    Disobeyed(Outcome),
}

impl ExecutionRun<'_> {
    /// Runs the execution to its end.
    pub(super) async fn run(mut self, sink: &mut ExecutionSink<'_>) -> (ExecutionEnd, AfterExecution) {
        let mut progress = RunProgress::default();
        sink.begin();
        loop {
            match self.happens(&progress, sink).await {
                RunEvent::Report(Ok(report)) => {
                    if let Some(end) = store_report(report, &mut progress, sink).await {
                        return (end, AfterExecution::Ready);
                    }
                    self.live.session.advance(self.host).await;
                }
                RunEvent::Report(Err(error)) => return self.broken(&error, &progress, sink).await,
                RunEvent::Exited(exit) => return self.died(exit, &progress, sink).await,
                RunEvent::Order(Some(KernelOrder::Interrupt(answer))) => {
                    self.interrupt().await;
                    progress.interrupted.get_or_insert((Outcome::Interrupted, None));
                    let _ = answer.send(());
                }
                RunEvent::Order(Some(KernelOrder::Start(answer))) => drop(answer.send(Ok(()))),
                RunEvent::Order(Some(order)) => {
                    sink.note("the kernel was restarted or stopped while this ran".into());
                    return (end(Outcome::Interrupted, sink), AfterExecution::Order(order));
                }
                // The kernel's last owner is gone, and this task with it.
                RunEvent::Order(None) => return (end(Outcome::Aborted, sink), AfterExecution::Ready),
                RunEvent::Unwanted => {
                    self.interrupt().await;
                    progress.interrupted.get_or_insert((Outcome::Interrupted, None));
                }
                RunEvent::Deadline(outcome) => {
                    self.interrupt().await;
                    progress.interrupted = Some((outcome, Some(Instant::now() + INTERRUPT_TIMEOUT)));
                }
                RunEvent::Disobeyed(outcome) => {
                    let why = "did not stop when it was interrupted and was ended".to_owned();
                    sink.note(format!("the kernel `{}` {why}; its state is lost", self.kernel.id));
                    return (end(outcome, sink), AfterExecution::Lost(why));
                }
            }
        }
    }

    async fn happens(&mut self, progress: &RunProgress, sink: &ExecutionSink<'_>) -> RunEvent {
        let limits = self.execution.limits;
        let in_time = progress.interrupted.is_none_or(|(_, until)| until.is_none()) && !progress.answered;
        let silent_at = limits.silence.map(|silence| sink.last_output() + silence);
        let disobeyed = progress.interrupted.and_then(|(outcome, until)| Some((outcome, until?)));
        // Orders and limits first: a kernel that prints without end must not starve them. Its reports come before its exit, so that
        // none is lost. A branch that is not taken loses nothing: receiving and `next` may be cancelled.
        tokio::select! {
            biased;
            order = self.orders.recv() => RunEvent::Order(order),
            () = self.execution.unwanted.notified() => RunEvent::Unwanted,
            () = sleep_until_instant(disobeyed.map(|(_, until)| until)) => {
                RunEvent::Disobeyed(disobeyed.map_or(Outcome::TimedOut, |(outcome, _)| outcome))
            }
            () = sleep_until(limits.deadline_ms), if in_time => RunEvent::Deadline(Outcome::TimedOut),
            () = sleep_until_instant(silent_at), if in_time => RunEvent::Deadline(Outcome::IdleTimedOut),
            report = self.live.session.next() => RunEvent::Report(report),
            exit = self.live.process.ended() => RunEvent::Exited(exit),
        }
    }

    async fn interrupt(&mut self) {
        self.live.session.interrupt(self.host).await;
    }

    /// The process ended: takes its last reports.
    async fn died(
        &mut self,
        exit: Exit,
        progress: &RunProgress,
        sink: &mut ExecutionSink<'_>,
    ) -> (ExecutionEnd, AfterExecution) {
        while let Some(report) = self.live.session.next_after_exit().await {
            // The end of the process is the end of the execution, whatever the kernel reported last.
            if !matches!(report, KernelReport::Over(_)) {
                store_report(report, &mut RunProgress::default(), sink).await;
            }
        }
        let how = describe_exit(exit);
        sink.note(format!("the kernel `{}` {how} while this ran; its state is lost", self.kernel.id));
        let outcome = match progress.interrupted {
            Some((outcome @ (Outcome::TimedOut | Outcome::IdleTimedOut), _)) => outcome,
            _ => Outcome::Died,
        };
        let end = ExecutionEnd { outcome, execution_count: sink.count(), exit: Some(exit) };
        (end, AfterExecution::Lost(how))
    }

    /// The conversation broke. Usually the process has just ended; otherwise the kernel is of no use.
    async fn broken(
        &mut self,
        error: &KernelSessionError,
        progress: &RunProgress,
        sink: &mut ExecutionSink<'_>,
    ) -> (ExecutionEnd, AfterExecution) {
        if let Ok(exit) = tokio::time::timeout(IDLE_TIMEOUT, self.live.process.ended()).await {
            return self.died(exit, progress, sink).await;
        }
        let why = format!("could not be understood any more ({error}) and was ended");
        sink.note(format!("the kernel `{}` {why}; its state is lost", self.kernel.id));
        (end(Outcome::Died, sink), AfterExecution::Lost(why))
    }
}

/// Stores a report. Returns the end of the execution if the report is its last.
async fn store_report(
    report: KernelReport,
    progress: &mut RunProgress,
    sink: &mut ExecutionSink<'_>,
) -> Option<ExecutionEnd> {
    match report {
        KernelReport::Text(stream, text) => sink.text(stream, &text).await,
        KernelReport::Output(kind, bundle) => sink.output(kind, bundle).await,
        KernelReport::Error(error) => sink.error(error).await,
        KernelReport::Clear => sink.clear(),
        KernelReport::Count(count) => sink.set_count(count),
        KernelReport::Note(text) => sink.note(text),
        KernelReport::Answered => progress.answered = true,
        KernelReport::Nothing => {}
        KernelReport::Over(verdict) => {
            let outcome = outcome(progress, &verdict);
            // Some failures are reported in the answer alone.
            if let (Outcome::Error, false, ExecutionVerdict::Failed(error)) =
                (outcome, sink.has_error(), verdict)
            {
                sink.error(error).await;
            }
            return Some(end(outcome, sink));
        }
    }
    None
}

fn end(outcome: Outcome, sink: &ExecutionSink<'_>) -> ExecutionEnd {
    ExecutionEnd { outcome, execution_count: sink.count(), exit: None }
}

/// A limit that was reached outranks the kernel's answer. An interrupt counts unless the code ended well before it.
fn outcome(progress: &RunProgress, verdict: &ExecutionVerdict) -> Outcome {
    match (progress.interrupted, verdict) {
        (_, ExecutionVerdict::Lost) => Outcome::Lost,
        (Some((outcome @ (Outcome::TimedOut | Outcome::IdleTimedOut), _)), _) => outcome,
        (_, ExecutionVerdict::Ok) => Outcome::Ok,
        (Some((outcome, _)), _) => outcome,
        (None, ExecutionVerdict::Aborted) => Outcome::Aborted,
        (None, ExecutionVerdict::Failed(_)) => Outcome::Error,
    }
}
