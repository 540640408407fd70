//! A kernel as others see it, and a piece of code on its way through one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sandyard_protocol::{
    ExecutionEnd, ExecutionError, ExecutionInfo, GuestError, GuestErrorCode, KernelId, KernelInfo,
    KernelState, Language,
};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, mpsc, oneshot, watch};

use super::jupyter::ConnectionFile;
use super::record::Record;
use crate::keeper::processes::{Ending, Process};

/// What is kept of a kernel on disk, so that the next keeper finds it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Document {
    pub(super) id: KernelId,
    pub(super) language: Language,
    /// Random text by which requests of every keeper are known. Jupyter kernels read it; the shell's marks come from it.
    pub(super) session: String,
    /// How Jupyter clients connect; `None` if this kernel is none of theirs.
    #[serde(default)]
    pub(super) file: Option<ConnectionFile>,
    pub(super) process: Option<sandyard_protocol::ProcessId>,
}

/// A wish of a caller that does not wait in the queue. Each is answered when it is fulfilled.
#[derive(Debug)]
pub(super) enum Order {
    /// That it run.
    Start(oneshot::Sender<Result<(), GuestError>>),
    /// That it stop what it runs.
    Interrupt(oneshot::Sender<()>),
    /// That it begin afresh.
    Restart(oneshot::Sender<Result<(), GuestError>>),
    /// That it go.
    Stop(oneshot::Sender<()>),
}

/// A kernel. Its task owns the process and the channels; this is the way to it.
#[derive(Debug)]
pub(super) struct Kernel {
    pub(super) id: KernelId,
    pub(super) language: Language,
    /// Where the connection file is, if there is one.
    pub(super) connection_path: Option<String>,
    queue: mpsc::Sender<Arc<Execution>>,
    orders: mpsc::Sender<Order>,
    status: Mutex<Status>,
}

#[derive(Debug)]
struct Status {
    document: Document,
    state: KernelState,
    execution_count: u64,
    process: Option<Arc<Process>>,
}

impl Kernel {
    pub(super) fn new(
        document: Document,
        connection_path: Option<String>,
        queue: mpsc::Sender<Arc<Execution>>,
        orders: mpsc::Sender<Order>,
    ) -> Self {
        let (id, language) = (document.id.clone(), document.language);
        let status = Status { document, state: KernelState::Dead, execution_count: 0, process: None };
        Self { id, language, connection_path, queue, orders, status: Mutex::new(status) }
    }

    /// As a caller sees it.
    pub(super) fn info(&self) -> KernelInfo {
        let status = self.status();
        KernelInfo {
            id: self.id.clone(),
            language: self.language,
            state: status.state,
            queued: u32::try_from(self.queue.max_capacity() - self.queue.capacity()).unwrap_or(u32::MAX),
            execution_count: status.execution_count,
            connection_file: self.connection_path.clone().unwrap_or_default(),
        }
    }

    /// What is kept on disk.
    pub(super) fn document(&self) -> Document {
        self.status().document.clone()
    }

    pub(super) fn change_document(&self, change: impl FnOnce(&mut Document)) {
        change(&mut self.status().document);
    }

    pub(super) fn set_state(&self, state: KernelState) {
        self.status().state = state;
    }

    pub(super) fn set_count(&self, count: u64) {
        self.status().execution_count = count;
    }

    pub(super) fn set_process(&self, process: Option<Arc<Process>>) {
        self.status().process = process;
    }

    /// Asks that its process end, if it has one.
    pub(super) fn end_process(&self, ending: Ending) {
        if let Some(process) = &self.status().process {
            process.end(ending);
        }
    }

    /// Puts code into its queue.
    pub(super) fn enqueue(&self, execution: Arc<Execution>) -> Result<(), GuestError> {
        self.queue.try_send(execution).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => GuestError::new(
                GuestErrorCode::LimitReached,
                format!("too much code waits for the kernel `{}`", self.id),
            ),
            mpsc::error::TrySendError::Closed(_) => self.gone(),
        })
    }

    /// Has a wish fulfilled.
    pub(super) async fn order<T>(
        &self,
        order: impl FnOnce(oneshot::Sender<T>) -> Order,
    ) -> Result<T, GuestError> {
        let (answer, answered) = oneshot::channel();
        self.orders.send(order(answer)).await.map_err(|_| self.gone())?;
        answered.await.map_err(|_| self.gone())
    }

    fn gone(&self) -> GuestError {
        GuestError::new(GuestErrorCode::NotFound, format!("the kernel `{}` is gone", self.id))
    }

    fn status(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the output of an execution goes.
#[derive(Debug)]
pub(super) enum Target {
    /// To whoever asked, by way of a record.
    Caller(Record),
    /// To the job's own output.
    Job,
}

/// How long an execution may go on.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ExecutionLimits {
    /// When its time is up, in time since boot.
    pub(super) deadline_ms: Option<u64>,
    /// How long it may be silent.
    pub(super) silence: Option<Duration>,
}

/// How an execution ended, for those who wait for it.
#[derive(Debug, Clone)]
pub(in crate::keeper) struct Finished {
    /// How.
    pub(in crate::keeper) end: ExecutionEnd,
    /// The exception that ended it.
    pub(in crate::keeper) error: Option<ExecutionError>,
}

/// One piece of code.
#[derive(Debug)]
pub(in crate::keeper) struct Execution {
    pub(super) info: ExecutionInfo,
    pub(super) code: String,
    pub(super) limits: ExecutionLimits,
    pub(super) target: Target,
    /// Set by a caller who is gone, or by the job's end.
    pub(super) unwanted: Notify,
    pub(super) finished: watch::Sender<Option<Finished>>,
}

impl Execution {
    pub(super) fn new(info: ExecutionInfo, code: String, limits: ExecutionLimits, target: Target) -> Self {
        let finished = watch::Sender::new(None);
        Self { info, code, limits, target, unwanted: Notify::new(), finished }
    }

    /// The record of one that was asked for by a caller.
    pub(super) fn record(&self) -> Option<&Record> {
        match &self.target {
            Target::Caller(record) => Some(record),
            Target::Job => None,
        }
    }

    /// Waits for its end.
    pub(in crate::keeper) async fn ended(&self) -> Finished {
        let mut finished = self.finished.subscribe();
        loop {
            if let Some(finished) = finished.borrow_and_update().clone() {
                return finished;
            }
            if finished.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}
