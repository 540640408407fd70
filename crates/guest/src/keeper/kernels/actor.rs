//! The owner of one kernel: takes code from its queue, one piece after another, and orders at any time; notices when the kernel's
//! process ends; starts a fresh process for the next code.

use std::sync::Arc;

use sandyard_protocol::{ExecutionEnd, ExecutionError, GuestError, KernelState, Outcome};
use tokio::sync::mpsc;

use super::backend::{self, LiveKernel, describe_exit};
use super::context::KernelContext;
use super::kernel::{Execution, ExecutionTarget, KernelHandle, KernelOrder};
use super::language::KernelKind;
use super::notebook::Notebooks;
use super::run::{AfterExecution, ExecutionRun};
use super::sink::ExecutionSink;
use crate::keeper::clock::sleep_until;

/// The owner of one kernel.
pub(super) struct KernelActor {
    pub(super) context: Arc<KernelContext>,
    pub(super) notebooks: Arc<Notebooks>,
    pub(super) kernel: Arc<KernelHandle>,
    pub(super) queue: mpsc::Receiver<Arc<Execution>>,
    pub(super) orders: mpsc::Receiver<KernelOrder>,
    pub(super) live: Option<LiveKernel>,
    /// Why the last process is gone. Reported with the next execution.
    pub(super) lost: Option<String>,
}

/// An event that ends the wait of an idle kernel.
enum ActorEvent {
    Order(Option<KernelOrder>),
    Execute(Arc<Execution>),
    Lost(String),
}

impl KernelActor {
    /// Serves the kernel until it is stopped. An execution of the earlier keeper comes first.
    pub(super) async fn run(mut self, interrupted: Option<Arc<Execution>>) {
        if let Some(execution) = interrupted {
            let after = self.go_on(&execution).await;
            if self.follow(after).await.is_break() {
                return;
            }
        }
        loop {
            // No branch is preferred: orders, code and the end of the process are all rare. A branch that is not taken loses nothing:
            // receiving may be cancelled.
            let event = tokio::select! {
                order = self.orders.recv() => ActorEvent::Order(order),
                Some(execution) = self.queue.recv() => ActorEvent::Execute(execution),
                why = lost(&mut self.live) => ActorEvent::Lost(why),
            };
            let after = match event {
                ActorEvent::Order(None) => return,
                ActorEvent::Order(Some(order)) => AfterExecution::Order(order),
                ActorEvent::Execute(execution) => self.execute(&execution).await,
                ActorEvent::Lost(why) => AfterExecution::Lost(why),
            };
            if self.follow(after).await.is_break() {
                return;
            }
        }
    }

    async fn follow(&mut self, after: AfterExecution) -> std::ops::ControlFlow<()> {
        match after {
            AfterExecution::Ready => {}
            AfterExecution::Lost(why) => {
                self.lost = Some(why);
                self.stop_process().await;
            }
            AfterExecution::Order(KernelOrder::Interrupt(answer)) => drop(answer.send(())),
            AfterExecution::Order(KernelOrder::Start(answer)) => {
                let started = self.ensure_live().await;
                let _ = answer.send(started);
            }
            AfterExecution::Order(KernelOrder::Restart(answer)) => {
                self.stop_process().await;
                self.abort_queue();
                self.lost = None;
                let started = self.ensure_live().await;
                let _ = answer.send(started);
            }
            AfterExecution::Order(KernelOrder::Stop(answer)) => {
                self.stop_process().await;
                // Closed before it is emptied, so that no code slips in between and waits for ever.
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
            let launched = backend.launch(&self.context, &self.kernel).await;
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
        self.context.registry.save();
    }

    fn abort_queue(&mut self) {
        while let Ok(execution) = self.queue.try_recv() {
            let end = ExecutionEnd { outcome: Outcome::Aborted, execution_count: None, exit: None };
            let mut sink = ExecutionSink::new(&self.context, &execution);
            sink.note(format!("the kernel `{}` was restarted or stopped before this ran", self.kernel.id));
            sink.finish(end);
        }
    }

    async fn execute(&mut self, execution: &Arc<Execution>) -> AfterExecution {
        let context = self.context.clone();
        let mut sink = ExecutionSink::new(&context, execution);
        if let Some(exit) = self.live.as_ref().and_then(|live| live.process.exit()) {
            // It ended a moment ago, before the loop of `run` could notice.
            self.live = None;
            self.lost = Some(describe_exit(exit));
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
                (ExecutionEnd { outcome, execution_count: None, exit: None }, AfterExecution::Ready)
            }
        };
        self.finish(execution, sink, end);
        after
    }

    /// Follows an execution that the earlier keeper had begun.
    async fn go_on(&mut self, execution: &Arc<Execution>) -> AfterExecution {
        let context = self.context.clone();
        let mut sink = ExecutionSink::new(&context, execution);
        sink.note("keeper was restarted while this ran; some of its output may be lost".into());
        let resumed = match &mut self.live {
            Some(live) => live.session.resume(&execution.info.id).await.is_ok(),
            None => false,
        };
        if !resumed {
            let end = ExecutionEnd { outcome: Outcome::Lost, execution_count: None, exit: None };
            self.finish(execution, sink, end);
            return AfterExecution::Lost("was gone when keeper was restarted".into());
        }
        self.kernel.set_state(KernelState::Busy);
        let (end, after) = self.run_live(execution, &mut sink).await;
        self.finish(execution, sink, end);
        after
    }

    async fn run_live(
        &mut self,
        execution: &Execution,
        sink: &mut ExecutionSink<'_>,
    ) -> (ExecutionEnd, AfterExecution) {
        let Some(live) = &mut self.live else {
            let end = ExecutionEnd { outcome: Outcome::Lost, execution_count: None, exit: None };
            return (end, AfterExecution::Ready);
        };
        let (host, kernel, orders) = (self.context.host(), &*self.kernel, &mut self.orders);
        ExecutionRun { host, kernel, execution, live, orders }.run(sink).await
    }

    /// Starts the kernel if need be and sends the code, within the execution's time.
    async fn begin(&mut self, execution: &Arc<Execution>) -> Result<(), (Outcome, ExecutionError)> {
        let deadline = execution.limits.deadline_ms;
        // The deadline is polled first: an execution whose time is up must not start a kernel. Cancelling the start leaves its
        // process behind, which is ended below.
        let starting = tokio::select! {
            biased;
            () = sleep_until(deadline) => Err((Outcome::TimedOut, failure("its time was up before it began".into()))),
            started = self.ensure_live() => started.map_err(|error| (Outcome::Died, failure(error.message))),
        };
        if let Err(refusal) = starting {
            if self.live.is_none() {
                // A start that was cancelled leaves its process behind.
                self.kernel.end_process(crate::keeper::processes::Ending::after(
                    sandyard_protocol::EndReason::Cancelled,
                    0,
                ));
                self.kernel.set_state(KernelState::Dead);
            }
            return Err(refusal);
        }
        let Some(live) = &mut self.live else { return Err((Outcome::Died, failure("no kernel".into()))) };
        let job = matches!(execution.target, ExecutionTarget::Job);
        // Stored before the code is sent: the next keeper must not send it again. A job whose spool fails ends with keeper.
        if job && let Err(error) = self.context.job.store_execution(&execution.info) {
            self.context.core.fail(error.into());
            return Err((Outcome::Aborted, failure("the spool failed".into())));
        }
        let sent = live.session.execute(execution).await;
        sent.map_err(|error| (Outcome::Died, failure(error.to_string())))
    }

    fn finish(&self, execution: &Execution, sink: ExecutionSink<'_>, end: ExecutionEnd) {
        if let Some(count) = end.execution_count {
            self.kernel.set_count(count);
        }
        if self.live.is_some() {
            self.kernel.set_state(KernelState::Idle);
        }
        let count = end.execution_count;
        let code = execution.code.clone();
        let (id, language) = (execution.info.id.0.clone(), execution.info.language);
        // The cell is added before the end is reported: a caller that waits for the end finds the cell in the notebook.
        let notebook = |cell: &super::cell::NotebookCell| cell.render(&id, &code, count);
        let rendered = sink.rendered(notebook);
        if let Some(cell) = rendered {
            self.notebooks.add(language, &cell);
        }
        sink.finish(end);
        self.context.registry.prune();
    }
}

/// Returns when the process of an idle kernel has ended or its channels broke. Reports in between are discarded.
async fn lost(live: &mut Option<LiveKernel>) -> String {
    let Some(live) = live else { return std::future::pending().await };
    loop {
        // The process may end, and its channels must be read even while nobody runs code: a kernel whose output nobody takes would block.
        // Cancelling loses nothing: `ended` is a watch, and `idle` only discards.
        tokio::select! {
            exit = live.process.ended() => {
                return describe_exit(exit);
            }
            error = live.session.idle() => {
                // The exit of the process is a better explanation than the end of its connection, so it is waited for.
                let gone = tokio::time::timeout(crate::limits::kernels::IDLE_TIMEOUT, live.process.ended()).await;
                if gone.is_err() {
                    return format!("could not be understood any more ({error}) and was ended");
                }
            }
        }
    }
}

fn failure(value: String) -> ExecutionError {
    ExecutionError { name: "KernelNotAvailable".into(), value, traceback: Vec::new() }
}
