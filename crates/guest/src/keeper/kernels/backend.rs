//! The interface between a kernel and the technology that runs its code.
//!
//! A [`KernelBackend`] starts the process of a kernel, or connects to one that an earlier keeper started; both give a
//! [`LiveKernel`]. Its [`KernelSession`] takes one piece of code at a time and reports its output. Queues, limits,
//! records and notebooks are the same for every backend and know none of them by name: `language` names the backend of
//! each language.

use std::sync::Arc;

use async_trait::async_trait;
use sandyard_protocol::{ExecutionError, ExecutionId, Exit, GuestError, OutputKind, OutputStream};

use super::context::KernelContext;
use super::jupyter::{ConnectionFile, MimeBundle};
use super::kernel::{Execution, KernelDocument, KernelHandle};
use crate::keeper::clock::milliseconds;
use crate::keeper::processes::{Ending, ManagedProcess};
use crate::limits::kernels::STOP_GRACE;
use crate::process_host::ProcessHost;

/// Starts and finds the processes of one kind of kernel. Stateless: one value serves all kernels of a language.
#[async_trait]
pub(super) trait KernelBackend: std::fmt::Debug + Send + Sync {
    /// Draws the connection file of a new kernel; `None` if Jupyter clients can't connect to this backend.
    fn connection(&self) -> std::io::Result<Option<ConnectionFile>>;

    /// Starts a process and waits until it takes code. The process is stored in the kernel as soon as it exists, so that
    /// a caller that cancels this can end it.
    async fn launch(
        &self,
        context: &Arc<KernelContext>,
        kernel: &KernelHandle,
    ) -> Result<LiveKernel, GuestError>;

    /// Connects to a process that an earlier keeper started. On failure the caller ends the process.
    async fn reconnect(
        &self,
        context: &KernelContext,
        document: &KernelDocument,
        process: Arc<ManagedProcess>,
    ) -> Result<LiveKernel, KernelSessionError>;
}

/// The conversation with one kernel process. Runs one execution at a time.
#[async_trait]
pub(super) trait KernelSession: std::fmt::Debug + Send {
    /// Sends the code of an execution.
    async fn execute(&mut self, execution: &Execution) -> Result<(), KernelSessionError>;

    /// Takes over an execution that an earlier keeper may have sent. [`KernelSession::next`] then reports its end, or
    /// [`ExecutionVerdict::Lost`] if the end can't be known.
    async fn resume(&mut self, execution: &ExecutionId) -> Result<(), KernelSessionError>;

    /// Returns the next report about the current execution. Cancelling it loses nothing.
    async fn next(&mut self) -> Result<KernelReport, KernelSessionError>;

    /// Sends the messages that the last report makes necessary. Called after each report and never cancelled: half a message would
    /// break the conversation.
    async fn advance(&mut self, host: &dyn ProcessHost);

    /// Returns the remaining reports after the process ended, and `None` after the last.
    async fn next_after_exit(&mut self) -> Option<KernelReport>;

    /// Asks the current execution to stop. A kernel that does not obey is noticed by its limits.
    async fn interrupt(&mut self, host: &dyn ProcessHost);

    /// Discards reports while nothing runs. Returns when the conversation broke.
    async fn idle(&mut self) -> KernelSessionError;
}

/// A kernel that runs.
#[derive(Debug)]
pub(super) struct LiveKernel {
    pub(super) process: Arc<ManagedProcess>,
    pub(super) session: Box<dyn KernelSession>,
}

/// A report about the current execution.
#[derive(Debug)]
pub(super) enum KernelReport {
    Text(OutputStream, String),
    Output(OutputKind, MimeBundle),
    Error(ExecutionError),
    /// Output so far is to be replaced.
    Clear,
    /// The kernel's own number of this execution.
    Count(Option<u64>),
    /// A sentence about the execution.
    Note(String),
    /// The code ended; only late output is still awaited, and limits no longer apply.
    Answered,
    /// Nothing to store; gives [`KernelSession::advance`] its turn.
    Nothing,
    /// The execution is over; no further report comes.
    Over(ExecutionVerdict),
}

/// The end of an execution that was not ended by keeper.
#[derive(Debug, Clone)]
pub(super) enum ExecutionVerdict {
    Ok,
    /// Ended with an error, repeated here in case it was not reported before.
    Failed(ExecutionError),
    /// The kernel did not run it, or ended it on request.
    Aborted,
    /// It ended while no keeper watched.
    Lost,
}

/// The conversation with a kernel process can't go on.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct KernelSessionError(pub(super) String);

/// Ends a kernel's process and waits until it is gone.
pub(super) async fn stop(process: &ManagedProcess) {
    process.end(Ending::after(sandyard_protocol::EndReason::Cancelled, milliseconds(STOP_GRACE)));
    process.ended().await;
}

/// How a kernel's process ended, for a sentence that begins with the kernel's name.
pub(super) fn describe_exit(exit: Exit) -> String {
    match exit.signal {
        Some(signal) => format!("was ended by signal {signal}"),
        None => format!("ended with code {}", exit.code),
    }
}
