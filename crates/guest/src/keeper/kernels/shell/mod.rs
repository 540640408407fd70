//! Keeper's own kernel for bash: one long-lived interactive bash that reads commands from a pipe.
//!
//! The pipes of its standard streams are held by the process service, so bash outlives keeper and the next keeper
//! connects by using them. `command` writes the lines that bash reads, and `driver.sh` the functions they call; `marks`
//! finds in bash's output where the output of an execution begins and ends; `session` follows one execution.
//!
//! Bash is interactive because only an interactive shell gives up a whole command line at SIGINT and reads the next one.
//! It has no terminal, prompts are empty, and the code finds `/dev/null` at its standard input. Everything that comes back
//! may be forged by the job's own code, which deceives nobody but its caller: marks are bounded and parsed as bytes.

mod command;
mod marks;
mod session;

use std::sync::Arc;

use async_trait::async_trait;
use sandyard_protocol::{GuestError, StartProcess};

use super::backend::{KernelBackend, KernelSessionError, LiveKernel};
use super::context::KernelContext;
use super::jupyter::ConnectionFile;
use super::kernel::{KernelDocument, KernelHandle};
use crate::keeper::processes::ManagedProcess;
use session::ShellSession;

const PROGRAM: [&str; 5] = ["bash", "--noprofile", "--norc", "--noediting", "-i"];

/// The shell that keeper speaks to itself.
#[derive(Debug)]
pub(super) struct ShellKernel;

#[async_trait]
impl KernelBackend for ShellKernel {
    /// It does not speak Jupyter's protocol, so JupyterLab does not list it among the running kernels.
    fn connection(&self) -> std::io::Result<Option<ConnectionFile>> {
        Ok(None)
    }

    /// Does not wait for bash to answer: lines wait for it in the pipe.
    async fn launch(
        &self,
        context: &Arc<KernelContext>,
        kernel: &KernelHandle,
    ) -> Result<LiveKernel, GuestError> {
        let argv = PROGRAM.map(str::to_owned).to_vec();
        let start = StartProcess { argv, stdin: true, ..StartProcess::default() };
        let process = context.processes.start(start).await?;
        // Stored before the first use, so that the next keeper finds the process by the kernel's document.
        kernel.set_process(Some(process.clone()));
        kernel.change_document(|document| document.process = Some(process.id().clone()));
        context.registry.save();
        Ok(live(process, &kernel.document()))
    }

    async fn reconnect(
        &self,
        _context: &KernelContext,
        document: &KernelDocument,
        process: Arc<ManagedProcess>,
    ) -> Result<LiveKernel, KernelSessionError> {
        if !process.takes_input().await {
            return Err(KernelSessionError("its standard input is closed".into()));
        }
        Ok(live(process, document))
    }
}

fn live(process: Arc<ManagedProcess>, document: &KernelDocument) -> LiveKernel {
    let session = Box::new(ShellSession::new(process.clone(), document.session.clone()));
    LiveKernel { process, session }
}
