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

use super::backend::{KernelBackend, LiveKernel, SessionError};
use super::jupyter::ConnectionFile;
use super::kernel::{Document, Kernel};
use crate::keeper::Keeper;
use crate::keeper::processes::{self, Process};
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
    async fn launch(&self, keeper: &Arc<Keeper>, kernel: &Kernel) -> Result<LiveKernel, GuestError> {
        let argv = PROGRAM.map(str::to_owned).to_vec();
        let start = StartProcess { argv, stdin: true, ..StartProcess::default() };
        let process = processes::start(keeper, start).await?;
        kernel.set_process(Some(process.clone()));
        kernel.change_document(|document| document.process = Some(process.id().clone()));
        keeper.kernels.save(keeper);
        Ok(live(process, &kernel.document()))
    }

    async fn reconnect(
        &self,
        _keeper: &Keeper,
        document: &Document,
        process: Arc<Process>,
    ) -> Result<LiveKernel, SessionError> {
        if !process.takes_input().await {
            return Err(SessionError("its standard input is closed".into()));
        }
        Ok(live(process, document))
    }
}

fn live(process: Arc<Process>, document: &Document) -> LiveKernel {
    let session = Box::new(ShellSession::new(process.clone(), document.session.clone()));
    LiveKernel { process, session }
}
