//! From a `Command` to a running program: checks, descriptors, fork, exec.
//!
//! The child tells a failure through a close-on-exec pipe as five bytes, stage and errno; the pipe's end without them means
//! that the program runs. Nobody waits here: a hostile process of the same user may stop the child at any point.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::pipe::PipeFlags;
use rustix::process::{DumpableBehavior, Pid};
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;
use sandyard_protocol::{AGENT_PROGRAM, TerminalSize};

use super::plan::Plan;
use crate::limits::{OOM_SCORE_ADJUSTMENT, PIPE_BYTES};
use crate::process_host::{Command, OWN_PROGRAM};
use crate::sys::{self, Forked};

/// The child's descriptors besides its standard streams, both gone after the exec: for telling a failure …
const STATUS_FD: i32 = 3;
/// … and the program, if it is one that we were given.
const PROGRAM_FD: i32 = 4;

/// Programs that are known by name alone, whatever the image holds.
#[derive(Debug)]
pub(super) struct Programs {
    /// Our own, `OWN_PROGRAM`.
    pub(super) own: OwnedFd,
    /// The loop of tasks, `AGENT_PROGRAM`, if the driver gave one; otherwise it is looked for as any other.
    pub(super) agent: Option<OwnedFd>,
}

impl Programs {
    fn given(&self, command: &Command) -> Option<BorrowedFd<'_>> {
        match command.argv.first().map(String::as_str) {
            Some(OWN_PROGRAM) => Some(self.own.as_fd()),
            Some(AGENT_PROGRAM) => self.agent.as_ref().map(AsFd::as_fd),
            _ => None,
        }
    }
}

/// A forked child and keeper's ends of its streams.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) pid: Pid,
    pub(super) streams: Streams,
    pub(super) status: Status,
}

/// Keeper's ends.
#[derive(Debug)]
pub(super) struct Streams {
    pub(super) stdout: OwnedFd,
    pub(super) stdin: Option<OwnedFd>,
    pub(super) stderr: Option<OwnedFd>,
}

/// The pipe through which a child tells why it could not become its program.
#[derive(Debug)]
pub(super) struct Status(File);

/// What is known of a child so far.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Pending,
    Running,
    Failed { what: String, errno: i32 },
}

/// A command that was not started.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub(super) struct Refusal {
    pub(super) what: String,
    pub(super) errno: i32,
}

/// What the child was doing when it failed.
#[derive(Clone, Copy)]
enum Stage {
    Session = 1,
    Oom = 2,
    Directory = 3,
    Exec = 4,
}

/// The child's ends.
enum ChildStreams {
    Pipes { stdin: OwnedFd, stdout: OwnedFd, stderr: OwnedFd },
    Terminal(OwnedFd),
}

/// Forks the command, with `input` as its standard input if that is given.
pub(super) fn start(
    command: &Command,
    input: Option<OwnedFd>,
    programs: &Programs,
) -> Result<Child, Refusal> {
    let given = programs.given(command);
    let plan = Plan::new(command, given.is_some())?;
    let program = given.unwrap_or(programs.own.as_fd());
    let (streams, child_streams) = match command.terminal {
        Some(size) => terminal(size),
        None => pipes(command.stdin, input),
    }
    .map_err(|error| refusal("open its streams", &error))?;
    let (status, status_child) =
        rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(|error| refusal("open a pipe", &error.into()))?;
    match sys::fork().map_err(|error| refusal("fork", &error))? {
        Forked::Child => run(&plan, &child_streams, status_child.as_fd(), program),
        Forked::Parent(pid) => {
            rustix::io::ioctl_fionbio(&status, true)
                .map_err(|error| refusal("watch its start", &error.into()))?;
            Ok(Child { pid, streams, status: Status(File::from(status)) })
        }
    }
}

fn pipes(with_stdin: bool, input: Option<OwnedFd>) -> io::Result<(Streams, ChildStreams)> {
    let (stdin, child_stdin) = if let Some(input) = input {
        (None, input)
    } else if with_stdin {
        let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&write, true)?;
        (Some(write), read)
    } else {
        (None, rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
    };
    let (stdout, child_stdout) = output_pipe()?;
    let (stderr, child_stderr) = output_pipe()?;
    let child = ChildStreams::Pipes { stdin: child_stdin, stdout: child_stdout, stderr: child_stderr };
    Ok((Streams { stdout, stdin, stderr: Some(stderr) }, child))
}

fn output_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    // Refused to users who already hold many pages in pipes; the default size then serves.
    let _ = rustix::pipe::fcntl_setpipe_size(&read, PIPE_BYTES);
    rustix::io::ioctl_fionbio(&read, true)?;
    Ok((read, write))
}

fn terminal(size: TerminalSize) -> io::Result<(Streams, ChildStreams)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = rustix::pty::openpt(flags)?;
    rustix::pty::unlockpt(&master)?;
    let window = Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&master, window)?;
    // By descriptor, never by a name under /dev/pts that something else could hold.
    let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags)?;
    rustix::io::ioctl_fionbio(&master, true)?;
    Ok((Streams { stdout: master, stdin: None, stderr: None }, ChildStreams::Terminal(slave)))
}

/// The child, from here to its program.
fn run(plan: &Plan, streams: &ChildStreams, status: BorrowedFd<'_>, program: BorrowedFd<'_>) -> ! {
    let [stdin, stdout, stderr] = streams.as_fds();
    let arranged = sys::keep_only(&[stdin, stdout, stderr, status, program])
        .and_then(|()| sys::close_on_exec_from(STATUS_FD.cast_unsigned()));
    if arranged.is_ok()
        && let Ok(status) = sys::take(STATUS_FD)
        && let Ok(program) = sys::take(PROGRAM_FD)
    {
        let (stage, error) = become_program(plan, streams, program.as_fd());
        let mut report = [stage as u8; 5];
        report[1..].copy_from_slice(&error.raw_os_error().unwrap_or(libc::EIO).to_le_bytes());
        drop(File::from(status).write_all(&report));
    }
    sys::leave(127)
}

fn become_program(plan: &Plan, streams: &ChildStreams, program: BorrowedFd<'_>) -> (Stage, io::Error) {
    if let Err(error) = begin_session(streams) {
        return (Stage::Session, error);
    }
    if let Err(error) = raise_oom_score() {
        return (Stage::Oom, error);
    }
    sys::default_signals();
    if let Err(error) = enter_directory(plan) {
        return (Stage::Directory, error);
    }
    let error = if plan.candidates.is_empty() {
        sys::exec_program(program, &plan.argv, &plan.env)
    } else {
        exec_first(plan)
    };
    (Stage::Exec, error)
}

fn begin_session(streams: &ChildStreams) -> io::Result<()> {
    rustix::process::setsid()?;
    if let ChildStreams::Terminal(_) = streams {
        rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
    }
    Ok(())
}

/// The file belongs to root while the process is closed to tracing, so it is opened up first. The job can see this copy of
/// the spawner's memory then, which holds nothing of its own, and no descriptor but the command's.
fn raise_oom_score() -> io::Result<()> {
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    std::fs::write("/proc/self/oom_score_adj", OOM_SCORE_ADJUSTMENT)
}

/// A directory outside the root would be named `(unreachable)…` by the kernel (CVE-2024-21626).
fn enter_directory(plan: &Plan) -> io::Result<()> {
    rustix::process::chdir(plan.cwd.as_c_str())?;
    let reached = rustix::process::getcwd(Vec::new())?;
    if reached.to_bytes().starts_with(b"/") {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(libc::EACCES))
    }
}

/// Like execvp: goes on to the next directory if there is no such program, and prefers to tell of one that may not run.
fn exec_first(plan: &Plan) -> io::Error {
    let mut worst = io::Error::from_raw_os_error(libc::ENOENT);
    for candidate in &plan.candidates {
        let error = sys::exec(candidate, &plan.argv, &plan.env);
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) => {}
            Some(libc::EACCES) => worst = error,
            _ => return error,
        }
    }
    worst
}

impl ChildStreams {
    fn as_fds(&self) -> [BorrowedFd<'_>; 3] {
        match self {
            Self::Pipes { stdin, stdout, stderr } => [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()],
            Self::Terminal(slave) => [slave.as_fd(), slave.as_fd(), slave.as_fd()],
        }
    }
}

impl Status {
    /// Looks, without waiting, at how far the child of this command has come.
    pub(super) fn progress(&self, command: &Command) -> Progress {
        let mut report = [0; 5];
        match (&self.0).read(&mut report) {
            Ok(5) => {
                let errno = i32::from_le_bytes([report[1], report[2], report[3], report[4]]);
                Progress::Failed { what: explain(report[0], errno, command), errno }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Progress::Pending,
            _ => Progress::Running,
        }
    }
}

impl AsFd for Status {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn explain(stage: u8, errno: i32, command: &Command) -> String {
    let program = command.argv.first().map_or("", String::as_str);
    match stage {
        stage if stage == Stage::Directory as u8 => format!("working directory `{}`", command.cwd),
        stage if stage == Stage::Exec as u8 && errno == libc::ENOENT && !program.contains('/') => {
            format!("program `{program}` not found on PATH")
        }
        stage if stage == Stage::Exec as u8 => format!("run `{program}`"),
        stage if stage == Stage::Oom as u8 => "raise the process's out-of-memory score".into(),
        _ => "begin the process's session".into(),
    }
}

fn refusal(what: &str, error: &io::Error) -> Refusal {
    Refusal { what: what.into(), errno: error.raw_os_error().unwrap_or(libc::EIO) }
}
