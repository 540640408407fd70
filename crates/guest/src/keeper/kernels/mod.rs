//! Kernels: persistent interpreters for Python, TypeScript, JavaScript (`jupyter`) and bash (`shell`), started on first use
//! as the job's user. Keeper speaks to them directly.
//!
//! The path of one execution: `service` finds or makes the `kernel` and queues the code; the kernel's `actor` has the `backend`
//! of its `language` start a process if there is none; `run` sends the code and takes the reports of the backend's session;
//! `sink` puts them into the caller's `record` or the job's output, and into a cell of the `notebook`. A kernel and its
//! executions belong to keeper, not to a stream, and outlive keeper: `recover` connects to them again.

mod actor;
mod attach;
mod backend;
mod cell;
mod context;
mod jupyter;
mod kernel;
mod language;
mod notebook;
mod record;
mod recover;
mod registry;
mod run;
mod service;
mod shell;
mod sink;

use std::sync::Arc;

use sandyard_protocol::{Execute, Reply, Request};

pub(super) use kernel::{Execution, FinishedExecution};
pub(super) use recover::recover;
pub(super) use service::{KernelServices, Kernels};

use super::stream::{HostStream, reply};

/// True for a request about kernels.
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
pub(super) async fn serve(kernels: Arc<Kernels>, request: Request, mut stream: HostStream) {
    let outcome = match request {
        Request::Execute(execute) => return serve_execute(&kernels, execute, stream).await,
        Request::AttachExecution { execution } => match kernels.execution(&execution) {
            Ok(execution) => return attach::serve(&execution, stream, false).await,
            Err(error) => Err(error),
        },
        Request::ListKernels => Ok(Reply::Kernels(kernels.list())),
        Request::StartKernel { language } => {
            kernels.start(language).await.map(|kernel| Reply::Kernel(kernel.info()))
        }
        Request::StopKernel { kernel } => kernels.stop(&kernel).await.map(|()| Reply::Done),
        Request::InterruptKernel { kernel } => kernels.interrupt(&kernel).await.map(|()| Reply::Done),
        Request::RestartKernel { kernel } => kernels.restart(&kernel).await.map(Reply::Kernel),
        _ => return,
    };
    reply(&mut stream, &outcome.unwrap_or_else(Reply::Failed)).await;
}

async fn serve_execute(kernels: &Kernels, execute: Execute, mut stream: HostStream) {
    let interrupt_on_loss = execute.interrupt_on_loss;
    match kernels.execute(execute).await {
        // Only the stream that started an execution may interrupt it by its loss.
        Ok((execution, repeated)) => attach::serve(&execution, stream, interrupt_on_loss && !repeated).await,
        Err(error) => reply(&mut stream, &Reply::Failed(error)).await,
    }
}
