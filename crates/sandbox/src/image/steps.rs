//! Runs the tools of a build on the host and reads their output.
//!
//! Each tool runs in a pid and mount namespace of its own that dies with the thread that started it: a killed builder
//! leaves neither processes nor mounts. Its environment has only the variables that the build gives it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::Duration;

use super::cancellation::Cancellation;

/// Directories in which tools are looked for, on the host and in the root.
pub(super) const TOOL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Tools of the host that a build calls, with the Debian package of each.
const TOOLS: [(&str, &str); 5] = [
    ("mmdebstrap", "mmdebstrap"),
    ("unshare", "util-linux"),
    ("setpriv", "util-linux"),
    ("mount", "mount"),
    ("chroot", "coreutils"),
];

/// Interval at which a step checks for cancellation.
const CANCEL_CHECK: Duration = Duration::from_millis(200);

/// Number of last output lines in an error.
const TAIL_LINES: usize = 20;

/// A tool did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The tool could not be started or followed.
    #[error("run {tool}")]
    Run {
        /// Name of the tool.
        tool: String,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// The tool ran and failed.
    #[error("{tool} ended with {status}; last output:\n{tail}")]
    Failed {
        /// Name of the tool.
        tool: String,
        /// Exit status of the tool.
        status: ExitStatus,
        /// Last lines of its output.
        tail: String,
    },
    /// The build was cancelled.
    #[error("cancelled")]
    Cancelled,
}

/// Returns a command of the host with an empty environment.
pub(super) fn host_command(tool: impl AsRef<Path>) -> Command {
    let mut command = Command::new(tool.as_ref());
    command.env_clear().env("PATH", TOOL_PATH).env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
    command
}

/// Returns a command that runs in namespaces of its own.
pub(super) fn isolated_command(tool: &Path) -> Command {
    // The kernel kills the tool with this thread, and unshare kills everything in its pid namespace with it.
    let mut command = host_command("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]);
    command.args(["unshare", "--mount", "--pid", "--fork", "--kill-child", "--"]).arg(tool);
    command
}

/// Returns the Debian packages of tools that this host lacks.
pub(super) fn missing_packages() -> Vec<&'static str> {
    let there = |tool: &str| TOOL_PATH.split(':').any(|directory| Path::new(directory).join(tool).exists());
    let mut packages: Vec<_> =
        TOOLS.iter().filter(|(tool, _)| !there(tool)).map(|&(_, package)| package).collect();
    packages.dedup();
    packages
}

/// Runs a command to its end, copies its output to the log and passes each line to `line`.
pub(super) fn run(
    mut command: Command,
    tool: &str,
    log: &mut File,
    cancellation: &Cancellation,
    line: &mut dyn FnMut(&str),
) -> Result<(), StepError> {
    let failed = |source| StepError::Run { tool: tool.to_owned(), source };
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(failed)?;
    let followed = follow(&mut child, log, cancellation, line);
    if !matches!(followed, Ok(FollowedOutput { cancelled: false, .. })) {
        // Killing a child that is already dead fails, which is fine.
        drop(child.kill());
    }
    let status = child.wait().map_err(failed)?;
    let followed = followed.map_err(failed)?;
    if followed.cancelled {
        return Err(StepError::Cancelled);
    }
    if !status.success() {
        let tail = followed.tail.join("\n");
        return Err(StepError::Failed { tool: tool.to_owned(), status, tail });
    }
    Ok(())
}

struct FollowedOutput {
    tail: Vec<String>,
    cancelled: bool,
}

fn follow(
    child: &mut Child,
    log: &mut File,
    cancellation: &Cancellation,
    line: &mut dyn FnMut(&str),
) -> io::Result<FollowedOutput> {
    let (sender, lines) = mpsc::sync_channel(64);
    let outputs: [Option<Box<dyn Read + Send>>; 2] = [
        child.stdout.take().map(|out| Box::new(out) as _),
        child.stderr.take().map(|out| Box::new(out) as _),
    ];
    for output in outputs.into_iter().flatten() {
        let sender = sender.clone();
        thread::Builder::new().name("image-output".to_owned()).spawn(move || read_lines(output, &sender))?;
    }
    // Only the readers hold senders now, so the channel closes when the tool has closed its output.
    drop(sender);
    let mut tail: Vec<String> = Vec::new();
    loop {
        match lines.recv_timeout(CANCEL_CHECK) {
            Ok(text) => {
                writeln!(log, "{text}")?;
                line(&text);
                if !is_progress(&text) {
                    tail.push(text);
                    tail.drain(..tail.len().saturating_sub(TAIL_LINES));
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(FollowedOutput { tail, cancelled: false }),
        }
        if cancellation.is_cancelled() {
            return Ok(FollowedOutput { tail, cancelled: true });
        }
    }
}

/// Reads lines until the tool and all its children closed the pipe, or the receiver is gone.
fn read_lines(output: Box<dyn Read + Send>, sender: &SyncSender<String>) {
    let mut reader = BufReader::new(output);
    let mut bytes = Vec::new();
    while matches!(reader.read_until(b'\n', &mut bytes), Ok(count) if count > 0) {
        let text = String::from_utf8_lossy(&bytes).trim_end().to_owned();
        bytes.clear();
        if sender.send(text).is_err() {
            return;
        }
    }
}

fn is_progress(line: &str) -> bool {
    line.starts_with("dlstatus:") || line.starts_with("pmstatus:")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, cancellation: &Cancellation) -> (Result<(), StepError>, Vec<String>) {
        let mut command = host_command("sh");
        command.args(["-c", script]);
        let mut seen = Vec::new();
        let mut log = tempfile::tempfile().unwrap();
        let result = run(command, "sh", &mut log, cancellation, &mut |line| seen.push(line.to_owned()));
        (result, seen)
    }

    #[test]
    fn a_failure_carries_the_last_words_without_progress() {
        let (result, seen) =
            shell("echo first; echo pmstatus:x:5:y; echo last >&2; exit 3", &Cancellation::default());
        let message = result.unwrap_err().to_string();
        assert!(message.contains("first") && message.contains("last"), "{message}");
        assert!(!message.contains("pmstatus"), "{message}");
        assert_eq!(seen.len(), 3);
    }

    #[test]
    fn tools_see_no_variable_of_ours() {
        let (result, seen) = shell("env", &Cancellation::default());
        result.unwrap();
        assert!(
            seen.iter().all(|line| ["PATH=", "LC_ALL=", "PWD=", "_=", "SHLVL=", "OLDPWD="]
                .iter()
                .any(|name| line.starts_with(name))),
            "{seen:?}"
        );
    }

    #[test]
    fn a_cancelled_tool_is_killed() {
        let cancellation = Cancellation::default();
        cancellation.cancel();
        let (result, _) = shell("exec sleep 600", &cancellation);
        assert!(matches!(result, Err(StepError::Cancelled)));
    }
}
