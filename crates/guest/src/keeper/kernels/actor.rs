//! The owner of one kernel: takes code from its queue, one piece after another, and callers' wishes at any time; notices
//! when the kernel's process ends; gives the next code a fresh one.

use std::sync::Arc;

use sandyard_protocol::{ExecutionEnd, ExecutionError, Exit, GuestError, KernelState, Outcome};
use tokio::sync::mpsc;

use super::backend::{self, LiveKernel};
use super::kernel::{Execution, Kernel, Order, Target};
use super::language::KernelKind;
use super::run::{After, Run};
use super::sink::Sink;
use crate::keeper::Keeper;
use crate::keeper::clock::sleep_until;

/// The owner.
pub(super) struct Actor {
    pub(super) keeper: Arc<Keeper>,
    pub(super) kernel: Arc<Kernel>,
    pub(super) queue: mpsc::Receiver<Arc<Execution>>,
    pub(super) orders: mpsc::Receiver<Order>,
    pub(super) live: Option<LiveKernel>,
    /// Why the process that was there is gone, until somebody was told.
    pub(super) lost: Option<String>,
}

enum Step {
    Order(Option<Order>),
    Execute(Arc<Execution>),
    Lost(String),
}

impl Actor {
    /// Works until the kernel is stopped. An execution of the keeper before comes first.
    pub(super) async fn run(mut self, interrupted: Option<Arc<Execution>>) {
        if let Some(execution) = interrupted {
            let after = self.go_on(&execution).await;
            if self.follow(after).await.is_break() {
                return;
            }
        }
        loop {
            let step = tokio::select! {
                order = self.orders.recv() => Step::Order(order),
                Some(execution) = self.queue.recv() => Step::Execute(execution),
                why = lost(&mut self.live) => Step::Lost(why),
            };
            let after = match step {
                Step::Order(None) => return,
                Step::Order(Some(order)) => After::Order(order),
                Step::Execute(execution) => self.execute(&execution).await,
                Step::Lost(why) => After::Lost(why),
            };
            if self.follow(after).await.is_break() {
                return;
            }
        }
    }

    async fn follow(&mut self, after: After) -> std::ops::ControlFlow<()> {
        match after {
            After::Ready => {}
            After::Lost(why) => {
                self.lost = Some(why);
                self.stop_process().await;
            }
            After::Order(Order::Interrupt(answer)) => drop(answer.send(())),
            After::Order(Order::Start(answer)) => {
                let started = self.ensure_live().await;
                let _ = answer.send(started);
            }
            After::Order(Order::Restart(answer)) => {
                self.stop_process().await;
                self.abort_queue();
                self.lost = None;
                let started = self.ensure_live().await;
                let _ = answer.send(started);
            }
            After::Order(Order::Stop(answer)) => {
                self.stop_process().await;
                self.queue.close();
                self.abort_queue();
                let _ = answer.send(());
                return std::ops::ControlFlow::Break(());
            }
        }
        std::ops::ControlFlow::Continue(())
    }

    async fn ensure_live(&mut self) -> Result<(), GuestError> {
        if self.live.is_none() {
            self.kernel.set_state(KernelState::Starting);
            let backend = KernelKind::of(self.kernel.language).backend;
            let launched = backend.launch(&self.keeper, &self.kernel).await;
            self.kernel.set_state(if launched.is_ok() { KernelState::Idle } else { KernelState::Dead });
            self.live = Some(launched?);
        }
        Ok(())
    }

    async fn stop_process(&mut self) {
        if let Some(live) = self.live.take() {
            backend::stop(&live.process).await;
        }
        self.kernel.set_process(None);
        self.kernel.set_state(KernelState::Dead);
        self.kernel.change_document(|document| document.process = None);
        self.keeper.kernels.save(&self.keeper);
    }

    fn abort_queue(&mut self) {
        while let Ok(execution) = self.queue.try_recv() {
            let end = ExecutionEnd { outcome: Outcome::Aborted, execution_count: None, exit: None };
            let mut sink = Sink::new(&self.keeper, &execution);
            sink.note(format!("the kernel `{}` was restarted or stopped before this ran", self.kernel.id));
            sink.finish(end);
        }
    }

    async fn execute(&mut self, execution: &Arc<Execution>) -> After {
        let keeper = self.keeper.clone();
        let mut sink = Sink::new(&keeper, execution);
        if let Some(exit) = self.live.as_ref().and_then(|live| live.process.exit()) {
            // It ended a moment ago, and nobody was told yet.
            self.live = None;
            self.lost = Some(how(exit));
        }
        if let Some(why) = self.lost.take() {
            sink.note(format!(
                "the kernel `{}` {why}: this is a fresh one, and its state is lost",
                self.kernel.id
            ));
        }
        let (end, after) = match self.begin(execution).await {
            Ok(()) => {
                self.kernel.set_state(KernelState::Busy);
                self.run_live(execution, &mut sink).await
            }
            Err((outcome, error)) => {
                sink.error(error).await;
                (ExecutionEnd { outcome, execution_count: None, exit: None }, After::Ready)
            }
        };
        self.finish(execution, sink, end);
        after
    }

    /// Follows what the keeper before had begun.
    async fn go_on(&mut self, execution: &Arc<Execution>) -> After {
        let keeper = self.keeper.clone();
        let mut sink = Sink::new(&keeper, execution);
        sink.note("keeper was restarted while this ran; some of its output may be lost".into());
        let resumed = match &mut self.live {
            Some(live) => live.session.resume(&execution.info.id).await.is_ok(),
            None => false,
        };
        if !resumed {
            let end = ExecutionEnd { outcome: Outcome::Lost, execution_count: None, exit: None };
            self.finish(execution, sink, end);
            return After::Lost("was gone when keeper was restarted".into());
        }
        self.kernel.set_state(KernelState::Busy);
        let (end, after) = self.run_live(execution, &mut sink).await;
        self.finish(execution, sink, end);
        after
    }

    async fn run_live(&mut self, execution: &Execution, sink: &mut Sink<'_>) -> (ExecutionEnd, After) {
        let Some(live) = &mut self.live else {
            let end = ExecutionEnd { outcome: Outcome::Lost, execution_count: None, exit: None };
            return (end, After::Ready);
        };
        let (keeper, kernel, orders) = (&*self.keeper, &*self.kernel, &mut self.orders);
        Run { keeper, kernel, execution, live, orders }.run(sink).await
    }

    /// Everything up to the request, within the execution's time.
    async fn begin(&mut self, execution: &Arc<Execution>) -> Result<(), (Outcome, ExecutionError)> {
        let deadline = execution.limits.deadline_ms;
        let starting = tokio::select! {
            biased;
            () = sleep_until(deadline) => Err((Outcome::TimedOut, failure("its time was up before it began".into()))),
            started = self.ensure_live() => started.map_err(|error| (Outcome::Died, failure(error.message))),
        };
        if let Err(refusal) = starting {
            if self.live.is_none() {
                // A start that was given up leaves its process behind.
                self.kernel.end_process(crate::keeper::processes::Ending::after(
                    sandyard_protocol::EndReason::Cancelled,
                    0,
                ));
                self.kernel.set_state(KernelState::Dead);
            }
            return Err(refusal);
        }
        let Some(live) = &mut self.live else { return Err((Outcome::Died, failure("no kernel".into()))) };
        let job = matches!(execution.target, Target::Job);
        if job && !crate::keeper::job::note_execution(&self.keeper, &execution.info) {
            return Err((Outcome::Aborted, failure("the spool failed".into())));
        }
        let sent = live.session.execute(execution).await;
        sent.map_err(|error| (Outcome::Died, failure(error.to_string())))
    }

    fn finish(&self, execution: &Execution, sink: Sink<'_>, end: ExecutionEnd) {
        if let Some(count) = end.execution_count {
            self.kernel.set_count(count);
        }
        if self.live.is_some() {
            self.kernel.set_state(KernelState::Idle);
        }
        let count = end.execution_count;
        let code = execution.code.clone();
        let (id, language) = (execution.info.id.0.clone(), execution.info.language);
        // The cell is rendered before the end is told: who waits for the end finds it in the notebook.
        let notebook = |cell: &super::cell::Cell| cell.render(&id, &code, count);
        let rendered = sink.rendered(notebook);
        if let Some(cell) = rendered {
            super::notebook::add(&self.keeper, language, &cell);
        }
        sink.finish(end);
        self.keeper.kernels.prune();
    }
}

/// Returns when the process of an idle kernel ended or its channels broke. What it says meanwhile is for others.
async fn lost(live: &mut Option<LiveKernel>) -> String {
    let Some(live) = live else { return std::future::pending().await };
    loop {
        tokio::select! {
            exit = live.process.ended() => {
                return how(exit);
            }
            error = live.session.idle() => {
                // The end of the process tells more than the end of its connection.
                let gone = tokio::time::timeout(crate::limits::kernels::IDLE_PATIENCE, live.process.ended()).await;
                if gone.is_err() {
                    return format!("could not be understood any more ({error}) and was ended");
                }
            }
        }
    }
}

/// How a kernel's process ended, for a sentence that begins with its name.
pub(super) fn how(exit: Exit) -> String {
    match exit.signal {
        Some(signal) => format!("was ended by signal {signal}"),
        None => format!("ended with code {}", exit.code),
    }
}

fn failure(value: String) -> ExecutionError {
    ExecutionError { name: "KernelNotAvailable".into(), value, traceback: Vec::new() }
}
