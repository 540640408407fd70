//! A reader that stays: it is asked over its standard input and answers on its standard output, line by line.

use std::ffi::OsStr;
use std::io;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::program::{program_path, sealed_file};

/// A running reader. Dropping it kills the process.
#[derive(Debug)]
pub struct ReaderSession {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    _process: Child,
}

impl ReaderSession {
    /// Starts a role of the reader, whose bytes are `program`.
    ///
    /// # Errors
    /// If the process can't be started.
    pub fn start(program: &[u8], arguments: &[&OsStr]) -> io::Result<Self> {
        let program = sealed_file(program)?;
        let mut process = Command::new(program_path(&program))
            .args(arguments)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // What it says when it fails is seen by its end; a pipe that nobody reads would stop it.
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        match (process.stdin.take(), process.stdout.take()) {
            (Some(input), Some(output)) => {
                Ok(Self { input, output: BufReader::new(output), _process: process })
            }
            _ => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Sends bytes.
    ///
    /// # Errors
    /// If the reader has ended.
    pub async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.input.write_all(bytes).await
    }

    /// Receives one line without its end.
    ///
    /// # Errors
    /// If the reader has ended, or the line has more than `most` bytes.
    pub async fn receive_line(&mut self, most: usize) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        (&mut self.output).take(most as u64 + 1).read_until(b'\n', &mut line).await?;
        if line.pop() == Some(b'\n') { Ok(line) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}
