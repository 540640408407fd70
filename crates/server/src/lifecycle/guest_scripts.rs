//! Scripts around git that run in the guest, as the job's user, for the host: bounded in time and bytes, and believed in nothing.
//!
//! They run with an environment of their own, from the read-only image, so neither the job's variables nor its home count.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use sandyard_protocol::{EndReason, Exit, OutputStream, StartProcess};
use sandyard_sandbox::machine::{FromProcess, Machine, MachineError, ProcessControl};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// What is kept of the end of standard error: some lines for a person.
const WORDS_BYTES: usize = 2048;
/// Input that is sent at once.
const PIECE_BYTES: usize = 64 * 1024;
/// What the host waits beyond the guest's own time limit.
const MARGIN: Duration = Duration::from_secs(10);

/// A script and its bounds.
#[derive(Debug)]
pub(super) struct GuestScript<'a> {
    pub(super) text: &'static str,
    pub(super) arguments: &'a [&'a str],
    pub(super) time: Duration,
    /// Bytes of standard output that are taken; a script that says more is ended.
    pub(super) most_output: u64,
}

/// What became of a script.
#[derive(Debug)]
pub(super) struct ScriptResult {
    pub(super) exit: Exit,
    /// The end of what it said on standard error, without control characters.
    pub(super) words: String,
}

/// Why a script came to no end.
#[derive(Debug, thiserror::Error)]
pub(super) enum ScriptError {
    #[error(transparent)]
    Machine(#[from] MachineError),
    #[error("it said more than {0} bytes")]
    TooMuch(u64),
    #[error("its output could not be kept")]
    Keep(#[source] std::io::Error),
    #[error("its input could not be read")]
    Input(#[source] std::io::Error),
    #[error("it took too long")]
    Late,
}

impl ScriptResult {
    pub(super) fn succeeded(&self) -> bool {
        self.exit.code == 0 && self.exit.signal.is_none() && self.exit.reason == EndReason::Own
    }
}

impl GuestScript<'_> {
    /// Runs it in the workspace with this input, and keeps its output. Dropping the future ends it.
    pub(super) async fn run(
        &self,
        machine: &Machine,
        input: impl AsyncRead + Send + Unpin,
        output: &mut (impl AsyncWrite + Send + Unpin),
    ) -> Result<ScriptResult, ScriptError> {
        let running = self.run_unlimited(machine, input, output);
        tokio::time::timeout(self.time + MARGIN, running).await.unwrap_or(Err(ScriptError::Late))
    }

    async fn run_unlimited(
        &self,
        machine: &Machine,
        input: impl AsyncRead + Send + Unpin,
        output: &mut (impl AsyncWrite + Send + Unpin),
    ) -> Result<ScriptResult, ScriptError> {
        let (mut reader, control) = machine.start_process(self.start()).await?.split();
        let feeding = feed(control, input);
        tokio::pin!(feeding);
        let (mut words, mut taken) = (VecDeque::new(), 0_u64);
        // Kept to the end: letting go of the writing half would end the script.
        let mut control = None;
        let exit = loop {
            let said = tokio::select! {
                said = reader.next() => said?,
                fed = &mut feeding, if control.is_none() => {
                    control = Some(fed?);
                    continue;
                }
            };
            match said {
                FromProcess::Exited(exit) => break exit,
                FromProcess::Lost(_) => return Err(ScriptError::TooMuch(self.most_output)),
                FromProcess::Output(chunk) if chunk.stream == OutputStream::Stdout => {
                    taken = taken.saturating_add(chunk.bytes.len() as u64);
                    if taken > self.most_output {
                        return Err(ScriptError::TooMuch(self.most_output));
                    }
                    output.write_all(&chunk.bytes).await.map_err(ScriptError::Keep)?;
                }
                FromProcess::Output(chunk) => {
                    words.extend(&chunk.bytes);
                    words.drain(..words.len().saturating_sub(WORDS_BYTES));
                }
            }
        };
        output.flush().await.map_err(ScriptError::Keep)?;
        Ok(ScriptResult { exit, words: readable(words.make_contiguous()) })
    }

    fn start(&self) -> StartProcess {
        let fixed =
            ["/usr/bin/env", "-i", "PATH=/usr/bin:/bin", "LANG=C.UTF-8", "bash", "-c", self.text, "git"];
        StartProcess {
            argv: fixed.iter().chain(self.arguments).map(|&argument| argument.to_owned()).collect(),
            stdin: true,
            timeout_ms: Some(u64::try_from(self.time.as_millis()).unwrap_or(u64::MAX)),
            ends_with_stream: true,
            ..StartProcess::default()
        }
    }
}

/// Writes the whole input and gives the writing half back. A script that takes no more of it says why by its exit.
async fn feed(
    mut control: ProcessControl,
    mut input: impl AsyncRead + Send + Unpin,
) -> Result<ProcessControl, ScriptError> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let length = input.read(&mut piece).await.map_err(ScriptError::Input)?;
        let written = match length {
            0 => control.close_input().await,
            length => control.write(&Bytes::copy_from_slice(&piece[..length])).await,
        };
        if length == 0 || written.is_err() {
            return Ok(control);
        }
    }
}

/// Text from a sandbox, for a person: whole characters, no control characters but line ends.
fn readable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars()
        .filter(|letter| *letter == '\n' || !letter.is_control())
        .collect::<String>()
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_sandbox_are_plain_text() {
        assert_eq!(readable(b"\xbcfatal: \x1b[31mno\x07\r\n such\n\n"), "\u{fffd}fatal: [31mno\n such");
    }
}
