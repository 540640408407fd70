//! The kernels of the image: how each is started, interrupted and written down.

use std::collections::BTreeMap;

use sandyard_protocol::Language;

/// How a kernel is told to stop what it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interrupt {
    /// SIGINT to its process group.
    Signal,
    /// A message on its control channel.
    Message,
}

/// One kind of kernel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    /// Name of its specification, for JupyterLab.
    pub(super) kernel_name: &'static str,
    /// What people call it.
    pub(super) display_name: &'static str,
    /// What notebooks call its language.
    pub(super) language_name: &'static str,
    program: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
    pub(super) interrupt: Interrupt,
    /// Whether output may come after the idle status.
    pub(super) idles_early: bool,
    /// Run in every fresh kernel, without a trace.
    pub(super) preparation: Option<&'static str>,
    /// Run before the code of a job, so that the code finds what a script would.
    pub(super) job_preparation: Option<&'static str>,
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

const PYTHON: Kind = Kind {
    kernel_name: "python3",
    display_name: "Python 3",
    language_name: "python",
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

const DENO: Kind = Kind {
    kernel_name: "deno",
    display_name: "TypeScript (Deno)",
    language_name: "typescript",
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

const JAVASCRIPT: Kind = Kind { language_name: "javascript", ..DENO };

const BASH: Kind = Kind {
    kernel_name: "bash",
    display_name: "Bash",
    language_name: "bash",
    program: &["/usr/bin/python3", "-m", "bash_kernel", "--log-level=50", "-f"],
    env: &[("PS1", "$")],
    interrupt: Interrupt::Signal,
    idles_early: false,
    preparation: None,
    job_preparation: None,
};

impl Kind {
    /// The kernel for a language.
    pub(super) fn of(language: Language) -> &'static Self {
        match language {
            Language::Python => &PYTHON,
            Language::Typescript => &DENO,
            Language::Javascript => &JAVASCRIPT,
            Language::Bash => &BASH,
        }
    }

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
