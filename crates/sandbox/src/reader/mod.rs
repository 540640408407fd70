//! Runs the reader on the host, as a process that confines itself before it reads anything.
//!
//! The program is carried by the host's binary and started from memory, so that nothing has to be installed and nobody can
//! exchange it. Its environment is empty; its result is taken from its standard output, within a bound. `session` is a reader that
//! stays and is asked.

mod program;
mod session;

use std::ffi::OsStr;
use std::io::{self, Read as _, Write as _};
use std::process::{Command, Stdio};

pub use session::ReaderSession;

use program::{program_path, sealed_file};

/// Largest result. An explanation of a million lines has a few megabytes.
const MAX_RESULT_BYTES: u64 = 256 << 20;
/// Longest message of a failure.
const MAX_MESSAGE_BYTES: u64 = 4096;

/// Why the reader gave no result.
#[derive(Debug, thiserror::Error)]
pub enum ReaderError {
    /// The program could not be started or its output not be read.
    #[error("start the reader")]
    Start(#[from] io::Error),
    /// The reader says why.
    #[error("{0}")]
    Failed(String),
    /// A limit or a signal ended it.
    #[error("the reader was ended by signal {0}, which a limit on memory or time causes")]
    Killed(i32),
    /// The result exceeds its bound.
    #[error("the reader's result has more than {MAX_RESULT_BYTES} bytes")]
    TooLarge,
}

/// Runs a role of the reader, whose bytes are `program`, and returns what it printed. Blocks; `input` is written to its standard
/// input.
///
/// # Errors
/// If the reader can't be started, fails, or prints too much.
pub fn run_reader<S: AsRef<OsStr>>(
    program: &[u8],
    arguments: &[S],
    input: &[u8],
) -> Result<Vec<u8>, ReaderError> {
    let program = sealed_file(program)?;
    let mut child = Command::new(program_path(&program))
        .args(arguments)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A reader that does not want its input may be gone already; its status says what happened.
        let _ = stdin.write_all(input);
    }
    let mut result = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(MAX_RESULT_BYTES + 1).read_to_end(&mut result)?;
    }
    if result.len() as u64 > MAX_RESULT_BYTES {
        child.kill()?;
        child.wait()?;
        return Err(ReaderError::TooLarge);
    }
    let mut message = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        stderr.take(MAX_MESSAGE_BYTES).read_to_end(&mut message)?;
    }
    let status = child.wait()?;
    if status.success() {
        return Ok(result);
    }
    use std::os::unix::process::ExitStatusExt as _;
    match status.signal() {
        Some(signal) => Err(ReaderError::Killed(signal)),
        None => Err(ReaderError::Failed(String::from_utf8_lossy(&message).trim().to_owned())),
    }
}
