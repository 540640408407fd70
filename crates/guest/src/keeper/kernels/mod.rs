//! Kernels: persistent interpreters for Python, TypeScript, JavaScript (`jupyter`) and bash (`shell`), started on first use
//! as the job's user and spoken to by keeper directly.
//!
//! The way of one execution: `serve` finds or makes the `kernel` and queues the code; the kernel's `actor` has the `backend`
//! of its `language` start a process if there is none; `run` sends the code and takes what the backend's session reports;
//! `sink` puts it into the caller's `record` or the job's output, and into a cell of the `notebook`. A kernel and its
//! executions belong to keeper, not to a stream, and outlive keeper: `recover` connects to them again.

mod actor;
mod attach;
mod backend;
mod cell;
mod jupyter;
mod kernel;
mod language;
mod notebook;
mod record;
mod recover;
mod run;
mod shell;
mod sink;
mod table;

use std::sync::Arc;

use sandyard_protocol::{Execute, GuestError, KernelId, Reply, Request};

pub(super) use kernel::{Execution, Finished};
pub(super) use notebook::flush as flush_notebooks;
pub(super) use recover::recover;
pub(super) use table::{Kernels, begin_job, end_job_kernel};

use super::Keeper;
use super::clock::milliseconds;
use super::link::{HostStream, reply};
use super::processes::Ending;
use crate::limits::kernels::STOP_GRACE;
use kernel::Order;

/// Whether a request is about kernels.
pub(super) fn claims(request: &Request) -> bool {
    matches!(
        request,
        Request::StartKernel { .. }
            | Request::ListKernels
            | Request::StopKernel { .. }
            | Request::InterruptKernel { .. }
            | Request::RestartKernel { .. }
            | Request::Execute(_)
            | Request::AttachExecution { .. }
    )
}

/// Serves the kernel requests.
pub(super) async fn serve(keeper: Arc<Keeper>, request: Request, mut stream: HostStream) {
    let outcome = match request {
        Request::Execute(execute) => return serve_execute(&keeper, execute, stream).await,
        Request::AttachExecution { execution } => match keeper.kernels.execution(&execution) {
            Ok(execution) => return attach::serve(&execution, stream, false).await,
            Err(error) => Err(error),
        },
        Request::ListKernels => Ok(Reply::Kernels(keeper.kernels.list())),
        Request::StartKernel { language } => match table::start(&keeper, language).await {
            Ok(kernel) => Ok(Reply::Kernel(kernel.info())),
            Err(error) => Err(error),
        },
        Request::StopKernel { kernel } => stop(&keeper, &kernel).await,
        Request::InterruptKernel { kernel } => interrupt(&keeper, &kernel).await,
        Request::RestartKernel { kernel } => restart(&keeper, &kernel).await,
        _ => return,
    };
    reply(&mut stream, &outcome.unwrap_or_else(Reply::Failed)).await;
}

async fn serve_execute(keeper: &Arc<Keeper>, execute: Execute, mut stream: HostStream) {
    let interrupt_on_loss = execute.interrupt_on_loss;
    match table::execute(keeper, execute) {
        Ok(execution) => attach::serve(&execution, stream, interrupt_on_loss).await,
        Err(error) => reply(&mut stream, &Reply::Failed(error)).await,
    }
}

async fn stop(keeper: &Arc<Keeper>, id: &KernelId) -> Result<Reply, GuestError> {
    let kernel = keeper.kernels.find(id)?;
    // A kernel that is being started hears no order before it answers; it is ended all the same.
    let grace = milliseconds(STOP_GRACE);
    kernel.end_process(Ending::after(sandyard_protocol::EndReason::Cancelled, grace));
    kernel.order(Order::Stop).await?;
    table::forget(keeper, &kernel).await;
    Ok(Reply::Done)
}

async fn interrupt(keeper: &Arc<Keeper>, id: &KernelId) -> Result<Reply, GuestError> {
    keeper.kernels.find(id)?.order(Order::Interrupt).await?;
    Ok(Reply::Done)
}

async fn restart(keeper: &Arc<Keeper>, id: &KernelId) -> Result<Reply, GuestError> {
    let kernel = keeper.kernels.find(id)?;
    kernel.order(Order::Restart).await??;
    Ok(Reply::Kernel(kernel.info()))
}
