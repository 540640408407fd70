//! The programs that speak the Jupyter protocol: how each is started, prepared and interrupted.

use std::collections::BTreeMap;

/// How a kernel is asked to interrupt the running code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InterruptMethod {
    /// SIGINT to its process group.
    Signal,
    /// A message on its control channel.
    Message,
}

/// One program that speaks the Jupyter protocol.
#[derive(Debug)]
pub(in crate::keeper::kernels) struct JupyterKernel {
    /// Name of its specification, for JupyterLab.
    pub(super) kernel_name: &'static str,
    program: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
    pub(super) interrupt: InterruptMethod,
    /// True if output may come after the idle status.
    pub(super) idles_early: bool,
    /// Run in every fresh kernel, without a trace.
    pub(super) preparation: Option<&'static str>,
    /// Run before the code of a job, so that the code finds the same names as a script.
    pub(super) job_preparation: Option<&'static str>,
}

/// ipykernel sends all text that was printed within a fifth of a second as one message, however long. In pieces of a million
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
    # AfterExecution this cell: IPython puts the streams of a cell back as they were.
    for stream in (sys.stdout, sys.stderr):
        asyncio.get_running_loop().call_soon(split, stream)
__prepare()
del __prepare
";

/// Python, run by ipykernel.
pub(in crate::keeper::kernels) static PYTHON: JupyterKernel = JupyterKernel {
    kernel_name: "python3",
    // Only critical messages: warnings about its own transport are no output of the code.
    program: &["/usr/bin/python3", "-m", "ipykernel_launcher", "--log-level=50", "-f"],
    // `sys.exit()` in a cell prints advice on how to leave IPython, which is no output of the code.
    env: &[("PYTHONWARNINGS", "ignore:To exit")],
    interrupt: InterruptMethod::Signal,
    idles_early: false,
    preparation: Some(PYTHON_PREPARATION),
    // IPython's own `exit` ends the kernel without the exit code.
    job_preparation: Some("import sys\nexit = quit = sys.exit\ndel sys"),
};

/// Deno, for TypeScript and JavaScript.
pub(in crate::keeper::kernels) static DENO: JupyterKernel = JupyterKernel {
    kernel_name: "deno",
    program: &["/usr/local/bin/deno", "jupyter", "--kernel", "--conn"],
    env: &[("NO_COLOR", "1"), ("DENO_NO_UPDATE_CHECK", "1")],
    interrupt: InterruptMethod::Message,
    idles_early: true,
    preparation: None,
    // Deno exits before printed text is sent; this delay lets its other thread send it.
    job_preparation: Some(
        "{ const exit = Deno.exit; Deno.exit = ((code?: number) => { \
         Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50); \
         return exit(code); }) as typeof Deno.exit; } undefined",
    ),
};

impl JupyterKernel {
    /// Program and arguments, without the connection file that comes last.
    pub(super) fn program(&self) -> impl Iterator<Item = String> {
        self.program.iter().map(|&argument| argument.to_owned())
    }

    /// Added to the environment of everything in the machine, unless the job sets it itself.
    pub(super) fn environment(&self, job: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let own = self.env.iter().filter(|(name, _)| !job.contains_key(*name));
        own.map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
    }
}
