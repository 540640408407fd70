//! Scripts around git that the host runs in the guest, as the job's user. Time and output are bounded, and nothing that a
//! script prints is trusted.
//!
//! A script gets an environment of its own and runs programs of the read-only image, so the job's variables and its home
//! directory have no influence.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use sandyard_protocol::{EndReason, Exit, OutputStream, StartProcess};
use sandyard_sandbox::machine::{FromProcess, Machine, MachineError, ProcessControl};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The end of standard error that is kept: some lines for a person.
const STDERR_TAIL_BYTES: usize = 2048;
/// Bytes of input sent at once.
const INPUT_PIECE_BYTES: usize = 64 * 1024;
/// Time that the host waits beyond the guest's own limit: the guest should report the timeout itself.
const TIMEOUT_MARGIN: Duration = Duration::from_secs(10);

/// A script with its arguments and bounds.
#[derive(Debug)]
pub(super) struct GuestScript<'a> {
    pub(super) text: &'static str,
    pub(super) arguments: &'a [&'a str],
    /// Time limit, kept by the guest.
    pub(super) time: Duration,
    /// Limit of standard output in bytes; a script that prints more is ended.
    pub(super) most_output: u64,
}

/// The end of a script.
#[derive(Debug)]
pub(super) struct ScriptResult {
    pub(super) exit: Exit,
    /// The end of its standard error, without control characters.
    pub(super) words: String,
}

/// A script did not run to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum ScriptError {
    #[error(transparent)]
    Machine(#[from] MachineError),
    #[error("the script printed more than {0} bytes")]
    TooMuch(u64),
    #[error("the output of the script could not be stored")]
    Keep(#[source] std::io::Error),
    #[error("the input of the script could not be read")]
    Input(#[source] std::io::Error),
    #[error("the script took too long")]
    Late,
}

impl ScriptResult {
    pub(super) fn succeeded(&self) -> bool {
        self.exit.code == 0 && self.exit.signal.is_none() && self.exit.reason == EndReason::Own
    }
}

impl GuestScript<'_> {
    /// Runs the script in the workspace and copies its standard output to `output`. Dropping the future ends the script.
    pub(super) async fn run(
        &self,
        machine: &Machine,
        input: impl AsyncRead + Send + Unpin,
        output: &mut (impl AsyncWrite + Send + Unpin),
    ) -> Result<ScriptResult, ScriptError> {
        let running = self.run_unlimited(machine, input, output);
        tokio::time::timeout(self.time + TIMEOUT_MARGIN, running).await.unwrap_or(Err(ScriptError::Late))
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
        // Kept until the exit: dropping the sending half ends the script (`ends_with_stream`).
        let mut control = None;
        let exit = loop {
            // Output is read while input is still being sent: a script that fills its output pipe reads no more input, and both
            // sides would wait for ever. `next` loses nothing when it is cancelled, and `feeding` is pinned outside the loop,
            // so it continues.
            let said = tokio::select! {
                said = reader.next() => said?,
                fed = &mut feeding, if control.is_none() => {
                    control = Some(fed?);
                    continue;
                }
            };
            match said {
                FromProcess::Exited(exit) => break exit,
                // The guest has dropped the oldest output. A patch or pack with a hole is worthless.
                FromProcess::Lost(_) => return Err(ScriptError::TooMuch(self.most_output)),
                FromProcess::Output(chunk) if chunk.stream == OutputStream::Stdout => {
                    taken = taken.saturating_add(chunk.bytes.len() as u64);
                    // Checked before the write: the script's output is hostile and must not fill the host's memory or disk.
                    if taken > self.most_output {
                        return Err(ScriptError::TooMuch(self.most_output));
                    }
                    output.write_all(&chunk.bytes).await.map_err(ScriptError::Keep)?;
                }
                FromProcess::Output(chunk) => {
                    words.extend(&chunk.bytes);
                    // Only the end is kept: memory stays bounded, and the last lines usually say why git failed.
                    words.drain(..words.len().saturating_sub(STDERR_TAIL_BYTES));
                }
            }
        };
        output.flush().await.map_err(ScriptError::Keep)?;
        Ok(ScriptResult { exit, words: readable(words.make_contiguous()) })
    }

    fn start(&self) -> StartProcess {
        let fixed =
            // An empty environment: variables of the job, GIT_DIR for example, must not steer git.
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

/// Sends the whole input and returns the writing half. A script that stops reading is no error here: its exit says why.
async fn feed(
    mut control: ProcessControl,
    mut input: impl AsyncRead + Send + Unpin,
) -> Result<ProcessControl, ScriptError> {
    let mut piece = vec![0; INPUT_PIECE_BYTES];
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

/// Makes text from a sandbox safe to print: whole characters, and no control characters but line ends.
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
