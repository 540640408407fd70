//! One process: its identity, output, input, exit, and the request that it end.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use sandyard_protocol::limits::LISTED_ARGUMENT_BYTES;
use sandyard_protocol::{
    EndReason, Exit, GuestError, GuestErrorCode, OutputOffsets, OutputStream, ProcessId, ProcessInfo,
    TerminalSize,
};
use serde::{Deserialize, Serialize};
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

use super::input::StandardInput;
use crate::keeper::clock::boot_ms;
use crate::keeper::output::capture::{Capture, Retention};
use crate::keeper::output::pump::OutputSource;
use crate::process_host::{Command, ProcessHost, Spawned};

/// A request to end a process. Of several requests, the first reason stays and the earliest kill wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::keeper) struct Ending {
    /// The reason that its exit will report.
    pub(in crate::keeper) reason: EndReason,
    /// Time of the kill unless the process has left by itself, in milliseconds since boot.
    pub(in crate::keeper) kill_at_ms: u64,
}

impl Ending {
    /// A request to end now, with a kill after `grace_ms`.
    pub(in crate::keeper) fn after(reason: EndReason, grace_ms: u64) -> Self {
        Self { reason, kill_at_ms: boot_ms().saturating_add(grace_ms) }
    }

    /// Joins this request with an earlier one.
    pub(in crate::keeper) fn merge(self, earlier: Option<Self>) -> Self {
        match earlier {
            Some(earlier) => {
                Self { reason: earlier.reason, kill_at_ms: earlier.kill_at_ms.min(self.kill_at_ms) }
            }
            None => self,
        }
    }
}

/// A process that keeper started, running or ended.
#[derive(Debug)]
pub(in crate::keeper) struct ManagedProcess {
    pub(super) id: ProcessId,
    pid: i32,
    argv: Vec<String>,
    stdout: Arc<Capture>,
    stderr: Arc<Capture>,
    pub(super) input: StandardInput,
    terminal: Option<Arc<AsyncFd<OwnedFd>>>,
    pub(super) exit: watch::Sender<Option<Exit>>,
    pub(super) ending: watch::Sender<Option<Ending>>,
    /// Number of streams that follow it.
    attached: watch::Sender<usize>,
}

/// A stream that follows a process; it counts until this is dropped.
#[derive(Debug)]
pub(super) struct AttachedStream<'a>(&'a ManagedProcess);

impl Drop for AttachedStream<'_> {
    fn drop(&mut self) {
        self.0.attached.send_modify(|count| *count -= 1);
    }
}

/// A process's descriptors, ready to wait on.
#[derive(Debug)]
pub(in crate::keeper) struct ProcessDescriptors {
    input: StandardInput,
    terminal: Option<Arc<AsyncFd<OwnedFd>>>,
    pub(super) stdout: OutputSource,
    pub(super) stderr: Option<OutputSource>,
    pid: i32,
}

impl ProcessDescriptors {
    /// Takes over the descriptors of a started program.
    pub(in crate::keeper) fn new(spawned: Spawned, has_terminal: bool) -> io::Result<Self> {
        let pid = spawned.pid;
        if has_terminal {
            let stdout = OutputSource::terminal(spawned.stdout)?;
            let terminal = stdout.descriptor().clone();
            return Ok(Self {
                input: StandardInput::terminal(terminal.clone()),
                terminal: Some(terminal),
                stdout,
                stderr: None,
                pid,
            });
        }
        let input = spawned.stdin.map_or_else(|| Ok(StandardInput::none()), StandardInput::pipe)?;
        let stderr = spawned.stderr.map(OutputSource::pipe).transpose()?;
        Ok(Self { input, terminal: None, stdout: OutputSource::pipe(spawned.stdout)?, stderr, pid })
    }
}

impl ProcessDescriptors {
    /// The outputs, without the input.
    pub(in crate::keeper) fn into_sources(self) -> Vec<OutputSource> {
        [Some(self.stdout), self.stderr].into_iter().flatten().collect()
    }
}

impl ManagedProcess {
    /// A process that runs, and the sources of its output.
    pub(in crate::keeper) fn running(
        command: &Command,
        descriptors: ProcessDescriptors,
        output: [Arc<Capture>; 2],
    ) -> (Arc<Self>, Vec<(OutputSource, Arc<Capture>)>) {
        let [stdout, stderr] = output;
        let mut sources = vec![(descriptors.stdout, stdout.clone())];
        match descriptors.stderr {
            Some(source) => sources.push((source, stderr.clone())),
            None => stderr.close(),
        }
        let process = Self {
            id: command.id.clone(),
            pid: descriptors.pid,
            argv: command.argv.clone(),
            stdout,
            stderr,
            input: descriptors.input,
            terminal: descriptors.terminal,
            exit: watch::Sender::new(None),
            ending: watch::Sender::new(None),
            attached: watch::Sender::new(0),
        };
        (Arc::new(process), sources)
    }

    /// A process that ended before this keeper began; its last output may be there.
    pub(in crate::keeper) fn over(
        id: ProcessId,
        pid: i32,
        argv: Vec<String>,
        exit: Exit,
        output: [Arc<Capture>; 2],
    ) -> Arc<Self> {
        let [stdout, stderr] = output;
        stdout.close();
        stderr.close();
        let (exit, ending) = (watch::Sender::new(Some(exit)), watch::Sender::new(None));
        Arc::new(Self {
            id,
            pid,
            argv,
            stdout,
            stderr,
            input: StandardInput::none(),
            terminal: None,
            exit,
            ending,
            attached: watch::Sender::new(0),
        })
    }

    /// Opens the captures of a process whose output is kept for a while.
    pub(super) fn open_output(directory: &Path) -> io::Result<[Arc<Capture>; 2]> {
        let open = |name| Capture::open(directory.join(name), Retention::Recent).map(Arc::new);
        Ok([open("stdout")?, open("stderr")?])
    }

    pub(in crate::keeper) fn id(&self) -> &ProcessId {
        &self.id
    }

    /// True if it runs the program of this name.
    pub(super) fn runs(&self, program: &str) -> bool {
        self.argv.first().is_some_and(|first| first == program)
    }

    pub(in crate::keeper) fn output(&self, stream: OutputStream) -> &Arc<Capture> {
        match stream {
            OutputStream::Stdout => &self.stdout,
            OutputStream::Stderr => &self.stderr,
        }
    }

    pub(super) fn has_terminal(&self) -> bool {
        self.terminal.is_some()
    }

    /// The description for callers.
    pub(super) fn info(&self) -> ProcessInfo {
        ProcessInfo {
            id: self.id.clone(),
            pid: self.pid,
            argv: listed(&self.argv),
            exit: *self.exit.borrow(),
            terminal: self.has_terminal(),
            output: OutputOffsets { stdout: self.stdout.end(), stderr: self.stderr.end() },
            repeated: false,
        }
    }

    /// Counts a stream until the returned guard is dropped.
    pub(super) fn attach(&self) -> AttachedStream<'_> {
        self.attached.send_modify(|count| *count += 1);
        AttachedStream(self)
    }

    /// The number of streams, and its changes.
    pub(super) fn attached(&self) -> watch::Receiver<usize> {
        self.attached.subscribe()
    }

    /// The exit, if it has ended.
    pub(in crate::keeper) fn exit(&self) -> Option<Exit> {
        *self.exit.borrow()
    }

    /// Waits for the end.
    pub(in crate::keeper) async fn ended(&self) -> Exit {
        let mut exits = self.exit.subscribe();
        loop {
            if let Some(exit) = *exits.borrow_and_update() {
                return exit;
            }
            if exits.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Stores the exit and wakes everyone who waits for it.
    pub(in crate::keeper) fn set_exit(&self, exit: Exit) {
        self.exit.send_replace(Some(exit));
    }

    /// Asks the process to end.
    pub(in crate::keeper) fn end(&self, ending: Ending) {
        self.ending.send_modify(|wish| *wish = Some(ending.merge(*wish)));
    }

    /// Time since the last output on either stream.
    pub(super) fn quiet_for(&self) -> std::time::Duration {
        self.stdout.quiet_for().min(self.stderr.quiet_for())
    }

    /// Resizes its terminal, if it has one.
    pub(super) fn resize(&self, size: TerminalSize) {
        if let Some(terminal) = &self.terminal {
            let size = rustix::termios::Winsize {
                ws_row: size.rows,
                ws_col: size.columns,
                ws_xpixel: 0,
                ws_ypixel: 0,
            };
            // A terminal whose last process is gone can't be resized and need not be.
            let _ = rustix::termios::tcsetwinsize(terminal.get_ref(), size);
        }
    }

    /// True if its standard input is open.
    pub(in crate::keeper) async fn takes_input(&self) -> bool {
        self.input.is_open().await
    }

    /// Writes to its standard input, waiting for room. A cancelled write of at most 4096 bytes (`PIPE_BUF`) has written all or
    /// nothing.
    pub(in crate::keeper) async fn write_input(&self, bytes: &[u8]) {
        self.input.write(bytes).await;
    }

    /// Closes its standard input.
    pub(super) async fn close_input(&self, host: &dyn ProcessHost) {
        // Keeper's descriptor first, then init's copy: the process sees the end of its input when both are closed.
        self.input.close().await;
        if self.terminal.is_none() {
            // Fails only with the spawner, and then the process is gone too.
            let _ = host.close_stdin(&self.id).await;
        }
    }

    /// Signals its process group.
    pub(in crate::keeper) async fn signal(
        &self,
        host: &dyn ProcessHost,
        signal: i32,
    ) -> Result<(), GuestError> {
        // Linux numbers its signals from 1 to 64; signal 0 would only probe.
        if !(1..=64).contains(&signal) {
            return Err(GuestError::new(GuestErrorCode::BadRequest, format!("there is no signal {signal}")));
        }
        // The kernel may have given the pid of an ended process to another.
        if self.exit().is_some() {
            return Ok(());
        }
        host.signal(&self.id, signal)
            .await
            .map_err(|error| GuestError::new(GuestErrorCode::Internal, error.to_string()))
    }

    /// Signals those of its process group that missed a signal. Fails only with the spawner, and then the machine is gone.
    pub(in crate::keeper) async fn signal_deaf(&self, host: &dyn ProcessHost, signal: i32) {
        if self.exit().is_none() {
            let _ = host.signal_deaf(&self.id, signal).await;
        }
    }
}

/// The first arguments within the bound of a list. The one that crosses it is cut between letters, later ones are left out.
fn listed(argv: &[String]) -> Vec<String> {
    let mut room = LISTED_ARGUMENT_BYTES;
    let mut shown = Vec::new();
    for argument in argv {
        let mut length = argument.len().min(room);
        while !argument.is_char_boundary(length) {
            length -= 1;
        }
        shown.push(argument[..length].to_owned());
        // An empty argument takes room too: a list of a million of them would be long.
        room = room.saturating_sub(length + 1);
        if room == 0 {
            break;
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_arguments_are_cut_in_lists() {
        let argv = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        assert_eq!(listed(&argv(&["bash", "-c", "ls"])), ["bash", "-c", "ls"]);
        let long = "ü".repeat(LISTED_ARGUMENT_BYTES);
        let cut = listed(&argv(&["bash", &long, "-c"]));
        assert!(cut.len() == 2 && cut[1].len() < LISTED_ARGUMENT_BYTES && long.starts_with(&cut[1]));
        let many = vec![String::new(); 100_000];
        assert!(listed(&many).len() <= LISTED_ARGUMENT_BYTES);
    }
}
