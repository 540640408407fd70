//! One execution in a running kernel, from the request to the last of its output: callers' wishes, time limits, and the
//! end of the process, for every backend alike.

use std::time::Instant;

use sandyard_protocol::{ExecutionEnd, Exit, Outcome};
use tokio::sync::mpsc;

use super::actor::how;
use super::backend::{Heard, LiveKernel, SessionError, Verdict};
use super::kernel::{Execution, Kernel, Order};
use super::sink::Sink;
use crate::keeper::Keeper;
use crate::keeper::clock::sleep_until;
use crate::limits::kernels::{IDLE_PATIENCE, INTERRUPT_PATIENCE};

/// What is to become of the kernel afterwards.
#[derive(Debug)]
pub(super) enum After {
    /// It goes on.
    Ready,
    /// Its process is gone, or must go: why.
    Lost(String),
    /// A caller's wish that ended the execution too.
    Order(Order),
}

/// An execution under way.
pub(super) struct Run<'a> {
    pub(super) keeper: &'a Keeper,
    pub(super) kernel: &'a Kernel,
    pub(super) execution: &'a Execution,
    pub(super) live: &'a mut LiveKernel,
    pub(super) orders: &'a mut mpsc::Receiver<Order>,
}

#[derive(Default)]
struct RunProgress {
    /// The code ended by itself: limits no longer apply.
    answered: bool,
    /// Why it was interrupted, and until when a limit waits for it to obey.
    interrupted: Option<(Outcome, Option<Instant>)>,
}

enum Happened {
    Heard(Result<Heard, SessionError>),
    Exited(Exit),
    Order(Option<Order>),
    Unwanted,
    Deadline(Outcome),
    Disobeyed(Outcome),
}

impl Run<'_> {
    /// Runs it to its end.
    pub(super) async fn run(mut self, sink: &mut Sink<'_>) -> (ExecutionEnd, After) {
        let mut progress = RunProgress::default();
        sink.begin();
        loop {
            match self.happens(&progress, sink).await {
                Happened::Heard(Ok(heard)) => {
                    if let Some(end) = hear(heard, &mut progress, sink).await {
                        return (end, After::Ready);
                    }
                    self.live.session.advance(self.keeper.host.as_ref()).await;
                }
                Happened::Heard(Err(error)) => return self.broken(&error, &progress, sink).await,
                Happened::Exited(exit) => return self.died(exit, &progress, sink).await,
                Happened::Order(Some(Order::Interrupt(answer))) => {
                    self.interrupt().await;
                    progress.interrupted.get_or_insert((Outcome::Interrupted, None));
                    let _ = answer.send(());
                }
                Happened::Order(Some(Order::Start(answer))) => drop(answer.send(Ok(()))),
                Happened::Order(Some(order)) => {
                    sink.note("the kernel was restarted or stopped while this ran".into());
                    return (end(Outcome::Interrupted, sink), After::Order(order));
                }
                // The kernel's last owner is gone, and this task with it.
                Happened::Order(None) => return (end(Outcome::Aborted, sink), After::Ready),
                Happened::Unwanted => {
                    self.interrupt().await;
                    progress.interrupted.get_or_insert((Outcome::Interrupted, None));
                }
                Happened::Deadline(outcome) => {
                    self.interrupt().await;
                    progress.interrupted = Some((outcome, Some(Instant::now() + INTERRUPT_PATIENCE)));
                }
                Happened::Disobeyed(outcome) => {
                    let why = "did not stop when it was interrupted and was ended".to_owned();
                    sink.note(format!("the kernel `{}` {why}; its state is lost", self.kernel.id));
                    return (end(outcome, sink), After::Lost(why));
                }
            }
        }
    }

    async fn happens(&mut self, progress: &RunProgress, sink: &Sink<'_>) -> Happened {
        let limits = self.execution.limits;
        let in_time = progress.interrupted.is_none_or(|(_, until)| until.is_none()) && !progress.answered;
        let silent_at = limits.silence.map(|silence| sink.last_output() + silence);
        let disobeyed = progress.interrupted.and_then(|(outcome, until)| Some((outcome, until?)));
        // Wishes and limits first: a kernel that talks without end must not keep them waiting. What it says comes before its
        // end. A branch that is not taken loses nothing: receiving and `next` may be cancelled.
        tokio::select! {
            biased;
            order = self.orders.recv() => Happened::Order(order),
            () = self.execution.unwanted.notified() => Happened::Unwanted,
            () = at(disobeyed.map(|(_, until)| until)) => {
                Happened::Disobeyed(disobeyed.map_or(Outcome::TimedOut, |(outcome, _)| outcome))
            }
            () = sleep_until(limits.deadline_ms), if in_time => Happened::Deadline(Outcome::TimedOut),
            () = at(silent_at), if in_time => Happened::Deadline(Outcome::IdleTimedOut),
            heard = self.live.session.next() => Happened::Heard(heard),
            exit = self.live.process.ended() => Happened::Exited(exit),
        }
    }

    async fn interrupt(&mut self) {
        self.live.session.interrupt(self.keeper.host.as_ref()).await;
    }

    /// The process ended: what it still said is taken.
    async fn died(
        &mut self,
        exit: Exit,
        progress: &RunProgress,
        sink: &mut Sink<'_>,
    ) -> (ExecutionEnd, After) {
        while let Some(heard) = self.live.session.next_after_exit().await {
            // The end of the process is the end of the execution, whatever the kernel said last.
            if !matches!(heard, Heard::Over(_)) {
                hear(heard, &mut RunProgress::default(), sink).await;
            }
        }
        let how = how(exit);
        sink.note(format!("the kernel `{}` {how} while this ran; its state is lost", self.kernel.id));
        let outcome = match progress.interrupted {
            Some((outcome @ (Outcome::TimedOut | Outcome::IdleTimedOut), _)) => outcome,
            _ => Outcome::Died,
        };
        let end = ExecutionEnd { outcome, execution_count: sink.count(), exit: Some(exit) };
        (end, After::Lost(how))
    }

    /// A kernel that can't be talked to is of no use, unless its process just ended.
    async fn broken(
        &mut self,
        error: &SessionError,
        progress: &RunProgress,
        sink: &mut Sink<'_>,
    ) -> (ExecutionEnd, After) {
        if let Ok(exit) = tokio::time::timeout(IDLE_PATIENCE, self.live.process.ended()).await {
            return self.died(exit, progress, sink).await;
        }
        let why = format!("could not be understood any more ({error}) and was ended");
        sink.note(format!("the kernel `{}` {why}; its state is lost", self.kernel.id));
        (end(Outcome::Died, sink), After::Lost(why))
    }
}

/// Takes a report; returns the end if it is one.
async fn hear(heard: Heard, progress: &mut RunProgress, sink: &mut Sink<'_>) -> Option<ExecutionEnd> {
    match heard {
        Heard::Text(stream, text) => sink.text(stream, &text).await,
        Heard::Output(kind, bundle) => sink.output(kind, bundle).await,
        Heard::Error(error) => sink.error(error).await,
        Heard::Clear => sink.clear(),
        Heard::Count(count) => sink.set_count(count),
        Heard::Note(text) => sink.note(text),
        Heard::Answered => progress.answered = true,
        Heard::Nothing => {}
        Heard::Over(verdict) => {
            let outcome = outcome(progress, &verdict);
            // Some failures are reported in the answer alone.
            if let (Outcome::Error, false, Verdict::Failed(error)) = (outcome, sink.has_error(), verdict) {
                sink.error(error).await;
            }
            return Some(end(outcome, sink));
        }
    }
    None
}

fn end(outcome: Outcome, sink: &Sink<'_>) -> ExecutionEnd {
    ExecutionEnd { outcome, execution_count: sink.count(), exit: None }
}

/// A limit that was reached counts more than the kernel's answer; an interrupt counts unless the code ended well before it.
fn outcome(progress: &RunProgress, verdict: &Verdict) -> Outcome {
    match (progress.interrupted, verdict) {
        (_, Verdict::Lost) => Outcome::Lost,
        (Some((outcome @ (Outcome::TimedOut | Outcome::IdleTimedOut), _)), _) => outcome,
        (_, Verdict::Ok) => Outcome::Ok,
        (Some((outcome, _)), _) => outcome,
        (None, Verdict::Aborted) => Outcome::Aborted,
        (None, Verdict::Failed(_)) => Outcome::Error,
    }
}

/// Returns at an instant; never, without one.
pub(super) async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant.into()).await,
        None => std::future::pending().await,
    }
}
