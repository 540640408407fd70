//! A kernel as other modules see it, and a piece of code on its way through it.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use sandyard_protocol::{
    ExecutionEnd, ExecutionError, ExecutionInfo, GuestError, GuestErrorCode, KernelId, KernelInfo,
    KernelState, Language,
};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, mpsc, oneshot, watch};

use super::jupyter::ConnectionFile;
use super::record::ExecutionRecord;
use crate::keeper::processes::{Ending, ManagedProcess};

/// The part of a kernel that is kept on disk, so that the next keeper finds it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct KernelDocument {
    pub(super) id: KernelId,
    pub(super) language: Language,
    /// Random text by which requests of every keeper are known. Jupyter kernels read it; the shell's marks come from it.
    pub(super) session: String,
    /// How Jupyter clients connect; `None` if this kernel does not speak Jupyter's protocol.
    #[serde(default)]
    pub(super) file: Option<ConnectionFile>,
    pub(super) process: Option<sandyard_protocol::ProcessId>,
}

/// An order to a kernel that does not wait in its queue. It is answered when it is done.
#[derive(Debug)]
pub(super) enum KernelOrder {
    /// Start the process unless it runs.
    Start(oneshot::Sender<Result<(), GuestError>>),
    /// Interrupt the running code.
    Interrupt(oneshot::Sender<()>),
    /// Replace the process by a fresh one.
    Restart(oneshot::Sender<Result<(), GuestError>>),
    /// End the process and the actor.
    Stop(oneshot::Sender<()>),
}

/// A kernel. Its actor owns the process and the channels; this is the handle to the actor.
#[derive(Debug)]
pub(super) struct KernelHandle {
    pub(super) id: KernelId,
    pub(super) language: Language,
    /// Path of the connection file, if there is one.
    pub(super) connection_path: Option<String>,
    queue: mpsc::Sender<Arc<Execution>>,
    orders: mpsc::Sender<KernelOrder>,
    status: Mutex<KernelStatus>,
}

#[derive(Debug)]
struct KernelStatus {
    document: KernelDocument,
    state: KernelState,
    execution_count: u64,
    process: Option<Arc<ManagedProcess>>,
}

impl KernelHandle {
    pub(super) fn new(
        document: KernelDocument,
        connection_path: Option<String>,
        queue: mpsc::Sender<Arc<Execution>>,
        orders: mpsc::Sender<KernelOrder>,
    ) -> Self {
        let (id, language) = (document.id.clone(), document.language);
        let status = KernelStatus { document, state: KernelState::Dead, execution_count: 0, process: None };
        Self { id, language, connection_path, queue, orders, status: Mutex::new(status) }
    }

    /// Returns the kernel's row in the list for callers.
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

    /// The part that is kept on disk.
    pub(super) fn document(&self) -> KernelDocument {
        self.status().document.clone()
    }

    pub(super) fn change_document(&self, change: impl FnOnce(&mut KernelDocument)) {
        change(&mut self.status().document);
    }

    pub(super) fn set_state(&self, state: KernelState) {
        self.status().state = state;
    }

    pub(super) fn set_count(&self, count: u64) {
        self.status().execution_count = count;
    }

    pub(super) fn set_process(&self, process: Option<Arc<ManagedProcess>>) {
        self.status().process = process;
    }

    /// Asks its process to end, if there is one.
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

    /// Sends an order and waits for its answer.
    pub(super) async fn order<T>(
        &self,
        order: impl FnOnce(oneshot::Sender<T>) -> KernelOrder,
    ) -> Result<T, GuestError> {
        let (answer, answered) = oneshot::channel();
        self.orders.send(order(answer)).await.map_err(|_| self.gone())?;
        answered.await.map_err(|_| self.gone())
    }

    fn gone(&self) -> GuestError {
        GuestError::new(GuestErrorCode::NotFound, format!("the kernel `{}` is gone", self.id))
    }

    fn status(&self) -> MutexGuard<'_, KernelStatus> {
        self.status.lock()
    }
}

/// The destination of an execution's output.
#[derive(Debug)]
pub(super) enum ExecutionTarget {
    /// The caller, through a record.
    Caller(ExecutionRecord),
    /// The job's own output.
    Job,
}

/// The time limits of an execution.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ExecutionLimits {
    /// Deadline in milliseconds since boot.
    pub(super) deadline_ms: Option<u64>,
    /// Longest time without output.
    pub(super) silence: Option<Duration>,
}

/// The end of an execution.
#[derive(Debug, Clone)]
pub(in crate::keeper) struct FinishedExecution {
    pub(in crate::keeper) end: ExecutionEnd,
    /// The exception that ended it.
    pub(in crate::keeper) error: Option<ExecutionError>,
}

/// One piece of code on its way through a kernel.
#[derive(Debug)]
pub(in crate::keeper) struct Execution {
    pub(super) info: ExecutionInfo,
    pub(super) code: String,
    pub(super) limits: ExecutionLimits,
    pub(super) target: ExecutionTarget,
    /// Set by a caller who is gone, or by the job's end.
    pub(super) unwanted: Notify,
    pub(super) finished: watch::Sender<Option<FinishedExecution>>,
}

impl Execution {
    pub(super) fn new(
        info: ExecutionInfo,
        code: String,
        limits: ExecutionLimits,
        target: ExecutionTarget,
    ) -> Self {
        let finished = watch::Sender::new(None);
        Self { info, code, limits, target, unwanted: Notify::new(), finished }
    }

    /// The record of an execution that a caller asked for.
    pub(super) fn record(&self) -> Option<&ExecutionRecord> {
        match &self.target {
            ExecutionTarget::Caller(record) => Some(record),
            ExecutionTarget::Job => None,
        }
    }

    /// Waits for the end.
    pub(in crate::keeper) async fn ended(&self) -> FinishedExecution {
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
