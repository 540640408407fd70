//! Kernels that speak the Jupyter protocol: how each is started and interrupted, and the conversation with it.
//!
//! `launch` starts the process with its `connection` file and opens the `channels` (`zmtp`, `message`, `content`);
//! `session` follows one execution over them.

mod channels;
mod connection;
mod content;
mod launch;
mod message;
mod session;
mod zmtp;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use sandyard_protocol::GuestError;

pub(super) use connection::{ConnectionFile, random_text};
pub(super) use content::{Bundle, cut};
pub(super) use message::hexadecimal;
pub(super) use zmtp::Budget;

use super::backend::{KernelBackend, LiveKernel, SessionError};
use super::kernel::{Document, Kernel};
use crate::keeper::Keeper;
use crate::keeper::processes::Process;

/// How a kernel is asked to stop the code it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Interrupt {
    /// SIGINT to its process group.
    Signal,
    /// A message on its control channel.
    Message,
}

/// One program that speaks the Jupyter protocol.
#[derive(Debug)]
pub(super) struct JupyterKernel {
    /// Name of its specification, for JupyterLab.
    kernel_name: &'static str,
    program: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
    interrupt: Interrupt,
    /// True if output may come after the idle status.
    idles_early: bool,
    /// Run in every fresh kernel, without a trace.
    preparation: Option<&'static str>,
    /// Run before the code of a job, so that the code finds what a script would.
    job_preparation: Option<&'static str>,
}

/// ipykernel sends all that was printed within a fifth of a second as one message, however long. Sent in pieces of a million
/// letters, none is too long to be taken, and a print of any length arrives whole.
const PYTHON_PREPARATION: &str = "
def __prepare():
    import asyncio, sys
    def split(stream):
        def write(text, write=stream.write, flush=stream.flush, held=[0]):
            if not isinstance(text, str):
                return write(text)
            for start in range(0, len(text), 1_000_000):
                piece = text[start:start + 1_000_000]
                held[0] += len(piece)
                write(piece)
                if held[0] >= 1_000_000:
                    held[0] = 0
                    flush()
            return len(text)
        stream.write = write
    # After this cell: IPython puts the streams of a cell back as they were.
    for stream in (sys.stdout, sys.stderr):
        asyncio.get_running_loop().call_soon(split, stream)
__prepare()
del __prepare
";

/// IPython.
pub(super) static PYTHON: JupyterKernel = JupyterKernel {
    kernel_name: "python3",
    // Quiet but for what is critical: warnings about its own transport are nobody's output.
    program: &["/usr/bin/python3", "-m", "ipykernel_launcher", "--log-level=50", "-f"],
    // `sys.exit()` in a cell is answered with advice on how to leave IPython, which is not what the code printed.
    env: &[("PYTHONWARNINGS", "ignore:To exit")],
    interrupt: Interrupt::Signal,
    idles_early: false,
    preparation: Some(PYTHON_PREPARATION),
    // IPython's own `exit` ends the kernel without the code it was given.
    job_preparation: Some("import sys\nexit = quit = sys.exit\ndel sys"),
};

/// Deno, for TypeScript and JavaScript.
pub(super) static DENO: JupyterKernel = JupyterKernel {
    kernel_name: "deno",
    program: &["/usr/local/bin/deno", "jupyter", "--kernel", "--conn"],
    env: &[("NO_COLOR", "1"), ("DENO_NO_UPDATE_CHECK", "1")],
    interrupt: Interrupt::Message,
    idles_early: true,
    preparation: None,
    // Deno leaves without what was just printed; a moment lets its other thread send it.
    job_preparation: Some(
        "{ const exit = Deno.exit; Deno.exit = ((code?: number) => { \
         Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50); \
         return exit(code); }) as typeof Deno.exit; } undefined",
    ),
};

impl JupyterKernel {
    /// Program and arguments, without the connection file that comes last.
    fn program(&self) -> impl Iterator<Item = String> {
        self.program.iter().map(|&argument| argument.to_owned())
    }

    /// Added to the environment of everything in the machine, unless the job sets it itself.
    fn environment(&self, job: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let own = self.env.iter().filter(|(name, _)| !job.contains_key(*name));
        own.map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
    }
}

#[async_trait]
impl KernelBackend for &'static JupyterKernel {
    fn connection(&self) -> std::io::Result<Option<ConnectionFile>> {
        ConnectionFile::draw(self.kernel_name).map(Some)
    }

    async fn launch(&self, keeper: &Arc<Keeper>, kernel: &Kernel) -> Result<LiveKernel, GuestError> {
        launch::launch(self, keeper, kernel).await
    }

    async fn reconnect(
        &self,
        keeper: &Keeper,
        document: &Document,
        process: Arc<Process>,
    ) -> Result<LiveKernel, SessionError> {
        Ok(launch::reconnect(self, document, process, &keeper.kernels.budget).await?)
    }
}
