//! A [`ProcessHost`] that forks in the present process's own system: no isolation at all, for the fake driver and tests.
//!
//! Honours the same fields as the spawner: working directory, environment, sessions, terminals, groups, and `kill_everything` for
//! the processes it started itself. The guest's own file worker runs on a thread.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;
use sandyard_protocol::{ProcessId, TerminalSize};
use tokio::sync::Notify;

use crate::keeper::files::worker;
use crate::process_host::{
    Command, OWN_PROGRAM, ProcessHost, RawExit, SpawnError, Spawned, Survivor, Survivors, signal_deaf,
};
use crate::sys;

/// Processes of this system. Dropping it leaves them alone; call `kill_everything` first.
#[derive(Debug, Default)]
pub struct LocalProcesses {
    shared: Arc<LocalShared>,
    /// Number of the keeper that holds this, counting from the first.
    keeper: u64,
}

impl LocalProcesses {
    /// The same processes for the next keeper. An earlier holder starts nothing from now on: a killed
    /// process can't, but a task that is being aborted runs to its next pause.
    #[must_use]
    pub fn for_next_keeper(&self) -> Self {
        let mut state = self.shared.state();
        state.keeper += 1;
        Self { shared: Arc::clone(&self.shared), keeper: state.keeper }
    }

    async fn begin(&self, command: Command, input: Option<OwnedFd>) -> Result<Spawned, SpawnError> {
        match self.spawn_unless_followed(command, input) {
            Some(outcome) => outcome,
            // A replaced keeper gets no answer: it would act on it, although a real one would be dead.
            None => std::future::pending().await,
        }
    }

    /// Starts a process, unless another keeper has come.
    fn spawn_unless_followed(
        &self,
        command: Command,
        input: Option<OwnedFd>,
    ) -> Option<Result<Spawned, SpawnError>> {
        let what = command.argv.first().cloned().unwrap_or_default();
        // Held until the process is known, so that it is found by a keeper that comes meanwhile.
        let mut state = self.shared.state();
        if state.keeper != self.keeper {
            return None;
        }
        let spawned = self.shared.spawn(&mut state, command, input);
        Some(spawned.map_err(|source| SpawnError::Refused { what: describe(&what, &source), source }))
    }
}

#[derive(Debug, Default)]
struct LocalShared {
    state: Mutex<LocalState>,
    changed: Notify,
    kills: AtomicU64,
}

#[derive(Debug, Default)]
struct LocalState {
    /// The keeper that may start something.
    keeper: u64,
    processes: BTreeMap<ProcessId, LocalProcess>,
    untold: VecDeque<ProcessId>,
}

#[derive(Debug)]
struct LocalProcess {
    command: Command,
    /// Duplicates of its descriptors, so that another keeper can be given them; none of a file worker, which must see
    /// that its keeper is gone.
    kept: Option<Spawned>,
    /// `None` for a role that runs on a thread.
    group: Option<Pid>,
    exit: Option<RawExit>,
}

#[async_trait]
impl ProcessHost for LocalProcesses {
    async fn spawn(&self, command: Command) -> Result<Spawned, SpawnError> {
        self.begin(command, None).await
    }

    async fn spawn_with_input(&self, command: Command, input: OwnedFd) -> Result<Spawned, SpawnError> {
        self.begin(command, Some(input)).await
    }

    async fn signal(&self, id: &ProcessId, signal: i32) -> Result<(), SpawnError> {
        let state = self.shared.state();
        if let (Some(signal), Some(group)) =
            (Signal::from_named_raw(signal), state.processes.get(id).and_then(|process| process.group))
        {
            // Gone already is as good as signalled.
            let _ = kill_process_group(group, signal);
        }
        Ok(())
    }

    async fn signal_deaf(&self, id: &ProcessId, signal: i32) -> Result<(), SpawnError> {
        let group = self.shared.state().processes.get(id).and_then(|process| process.group);
        if let (Some(signal), Some(group)) = (Signal::from_named_raw(signal), group) {
            signal_deaf(group, signal);
        }
        Ok(())
    }

    async fn close_stdin(&self, id: &ProcessId) -> Result<(), SpawnError> {
        let mut state = self.shared.state();
        if let Some(kept) = state.processes.get_mut(id).and_then(|process| process.kept.as_mut()) {
            kept.stdin = None;
        }
        Ok(())
    }

    async fn kill_everything(&self) -> Result<(), SpawnError> {
        for group in self.shared.state().processes.values().filter_map(|process| process.group) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        self.shared.kills.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    fn kills(&self) -> u64 {
        self.shared.kills.load(Ordering::Acquire)
    }

    async fn next_exit(&self) -> Result<RawExit, SpawnError> {
        loop {
            // Registered before the look, so that an exit between the look and the wait is not missed.
            let changed = self.shared.changed.notified();
            if let Some(exit) = self.shared.next_untold() {
                return Ok(exit);
            }
            changed.await;
        }
    }

    async fn forget(&self, id: &ProcessId) -> Result<(), SpawnError> {
        self.shared.state().processes.remove(id);
        Ok(())
    }

    async fn survivors(&self) -> Result<Survivors, SpawnError> {
        let mut state = self.shared.state();
        state.untold.clear();
        let survivor = |process: &LocalProcess| {
            let spawned = duplicate(process.kept.as_ref()?).ok()?;
            Some(Survivor { command: process.command.clone(), spawned, exit: process.exit.clone() })
        };
        Ok(Survivors { found: state.processes.values().filter_map(survivor).collect(), lost: Vec::new() })
    }
}

impl LocalState {
    fn keep(&mut self, command: Command, kept: Option<Spawned>, group: Option<Pid>) {
        let id = command.id.clone();
        self.processes.insert(id, LocalProcess { command, kept, group, exit: None });
    }
}

impl LocalShared {
    fn state(&self) -> MutexGuard<'_, LocalState> {
        self.state.lock()
    }

    fn next_untold(&self) -> Option<RawExit> {
        let mut state = self.state();
        while let Some(id) = state.untold.pop_front() {
            if let Some(exit) = state.processes.get(&id).and_then(|process| process.exit.clone()) {
                return Some(exit);
            }
        }
        None
    }

    fn spawn(
        self: &Arc<Self>,
        state: &mut LocalState,
        command: Command,
        input: Option<OwnedFd>,
    ) -> io::Result<Spawned> {
        if state.processes.contains_key(&command.id) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if command.argv.first().is_some_and(|program| program == OWN_PROGRAM) {
            if command.argv.get(1).is_none_or(|role| role != worker::ROLE) {
                return Err(io::ErrorKind::Unsupported.into());
            }
            return self.spawn_worker(state, command);
        }
        let (spawned, child_streams) = match command.terminal {
            Some(size) => terminal(size)?,
            None => pipes(command.stdin, input)?,
        };
        let mut child = child_streams.into_command(&command)?.spawn()?;
        let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
        let spawned = Spawned { pid, ..spawned };
        let (shared, id) = (Arc::clone(self), command.id.clone());
        state.keep(command, Some(duplicate(&spawned)?), Pid::from_raw(pid));
        std::thread::spawn(move || {
            let status = child.wait().unwrap_or_default();
            shared.ended(id, Pid::from_raw(pid), status);
        });
        Ok(spawned)
    }

    fn spawn_worker(self: &Arc<Self>, state: &mut LocalState, command: Command) -> io::Result<Spawned> {
        let (input, stdin) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let (stdout, output) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let (stderr, _) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let spawned = Spawned { pid: 0, stdin: Some(stdin), stdout, stderr: Some(stderr) };
        for fd in
            [spawned.stdin.as_ref(), Some(&spawned.stdout), spawned.stderr.as_ref()].into_iter().flatten()
        {
            rustix::io::ioctl_fionbio(fd, true)?;
        }
        let root = command.argv.get(2).cloned().unwrap_or_default();
        let (shared, id) = (Arc::clone(self), command.id.clone());
        state.keep(command, None, None);
        std::thread::spawn(move || {
            let (mut input, mut output) = (std::fs::File::from(input), std::fs::File::from(output));
            let code = i32::from(worker::serve(Path::new(&root), &mut input, &mut output).is_err());
            drop(output);
            shared.ended(id, None, ExitStatus::from_raw(code << 8));
        });
        Ok(spawned)
    }

    fn ended(&self, id: ProcessId, group: Option<Pid>, status: ExitStatus) {
        let signal = status.signal();
        let code = status.code().or(signal.map(|signal| 128 + signal)).unwrap_or(-1);
        let mut state = self.state();
        // One that was forgotten may have a successor of the same name.
        if let Some(process) = state.processes.get_mut(&id).filter(|process| process.group == group) {
            process.exit = Some(RawExit { id: id.clone(), code, signal });
            state.untold.push_back(id);
        }
        drop(state);
        self.changed.notify_waiters();
    }
}

/// The child's ends of its streams.
struct LocalChildStreams {
    stdin: Stdio,
    stdout: Stdio,
    stderr: Stdio,
    terminal: bool,
}

impl LocalChildStreams {
    fn into_command(self, command: &Command) -> io::Result<std::process::Command> {
        let (program, arguments) = command.argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        if !command.cwd.starts_with('/') {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut child = std::process::Command::new(program);
        child.args(arguments).current_dir(&command.cwd).env_clear().envs(&command.env);
        child.stdin(self.stdin).stdout(self.stdout).stderr(self.stderr);
        sys::prepare_session(&mut child, self.terminal);
        Ok(child)
    }
}

fn pipes(with_stdin: bool, input: Option<OwnedFd>) -> io::Result<(Spawned, LocalChildStreams)> {
    let (stdin, child_stdin) = if let Some(input) = input {
        (None, Stdio::from(input))
    } else if with_stdin {
        let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&write, true)?;
        (Some(write), Stdio::from(read))
    } else {
        (None, Stdio::null())
    };
    let (stdout, child_stdout) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    let (stderr, child_stderr) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    rustix::io::ioctl_fionbio(&stdout, true)?;
    rustix::io::ioctl_fionbio(&stderr, true)?;
    let child = LocalChildStreams {
        stdin: child_stdin,
        stdout: child_stdout.into(),
        stderr: child_stderr.into(),
        terminal: false,
    };
    Ok((Spawned { pid: 0, stdin, stdout, stderr: Some(stderr) }, child))
}

fn terminal(size: TerminalSize) -> io::Result<(Spawned, LocalChildStreams)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = rustix::pty::openpt(flags)?;
    rustix::pty::unlockpt(&master)?;
    let window = Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&master, window)?;
    let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags)?;
    rustix::io::ioctl_fionbio(&master, true)?;
    let copy = || slave.try_clone().map(Stdio::from);
    let child = LocalChildStreams { stdin: copy()?, stdout: copy()?, stderr: copy()?, terminal: true };
    Ok((Spawned { pid: 0, stdin: None, stdout: master, stderr: None }, child))
}

fn duplicate(spawned: &Spawned) -> io::Result<Spawned> {
    let copy = |fd: &Option<OwnedFd>| fd.as_ref().map(OwnedFd::try_clone).transpose();
    Ok(Spawned {
        pid: spawned.pid,
        stdin: copy(&spawned.stdin)?,
        stdout: spawned.stdout.try_clone()?,
        stderr: copy(&spawned.stderr)?,
    })
}

fn describe(program: &str, error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::NotFound && !program.contains('/') {
        format!("program `{program}` not found on PATH")
    } else {
        format!("run `{program}`")
    }
}

#[cfg(test)]
#[path = "local_tests.rs"]
mod tests;
