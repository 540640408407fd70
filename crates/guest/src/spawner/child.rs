//! From a `Command` to a running program: checks, descriptors, fork, exec.
//!
//! The child reports a failure through a close-on-exec pipe as five bytes, stage and errno. The end of the pipe without them means
//! that the program runs. The spawner never waits for a child: a hostile process of the same user may stop the child at any point.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::pipe::PipeFlags;
use rustix::process::{DumpableBehavior, Pid};
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;
use sandyard_protocol::{AGENT_PROGRAM, TerminalSize};

use super::plan::{ExecPlan, SpawnRefusal};
use crate::limits::{OOM_SCORE_ADJUSTMENT, PIPE_BYTES};
use crate::process_host::{Command, OWN_PROGRAM};
use crate::sys::{self, Forked};

/// Number of the status pipe in the child, after the standard streams. The exec closes it.
const STATUS_FD: i32 = 3;
/// Number of the given program in the child. The exec closes it.
const PROGRAM_FD: i32 = 4;

/// Programs that a command gets by their name, even if the image has others of that name.
#[derive(Debug)]
pub(super) struct GivenPrograms {
    /// The guest's own program, `OWN_PROGRAM`.
    pub(super) own: OwnedFd,
    /// The agent, `AGENT_PROGRAM`, if the driver gave one; otherwise it is searched for like any other program.
    pub(super) agent: Option<OwnedFd>,
}

impl GivenPrograms {
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
pub(super) struct StartedChild {
    pub(super) pid: Pid,
    pub(super) streams: KeeperEnds,
    pub(super) status: StatusPipe,
}

/// Keeper's ends of the streams.
#[derive(Debug)]
pub(super) struct KeeperEnds {
    pub(super) stdout: OwnedFd,
    pub(super) stdin: Option<OwnedFd>,
    pub(super) stderr: Option<OwnedFd>,
}

/// The pipe through which a child reports why it could not become its program.
#[derive(Debug)]
pub(super) struct StatusPipe(File);

/// The progress of a child towards its program.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StartProgress {
    Pending,
    Running,
    Failed { what: String, errno: i32 },
}

/// The step of a child that failed.
#[derive(Clone, Copy)]
enum StartStage {
    Session = 1,
    Oom = 2,
    Directory = 3,
    Exec = 4,
}

/// The child's ends of the streams.
enum ChildEnds {
    Pipes { stdin: OwnedFd, stdout: OwnedFd, stderr: OwnedFd },
    Terminal(OwnedFd),
}

/// Forks the command, with `input` as its standard input if that is given.
pub(super) fn start(
    command: &Command,
    input: Option<OwnedFd>,
    programs: &GivenPrograms,
) -> Result<StartedChild, SpawnRefusal> {
    let given = programs.given(command);
    let plan = ExecPlan::new(command, given.is_some())?;
    // The child always gets a descriptor, so that its numbers are fixed. It is not used if the plan has candidates.
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
            // The spawner must never block on a child. The child's ends of all pipes close when this function returns; copies that
            // stayed open here would hide the end of the output and of the status pipe.
            rustix::io::ioctl_fionbio(&status, true)
                .map_err(|error| refusal("watch its start", &error.into()))?;
            Ok(StartedChild { pid, streams, status: StatusPipe(File::from(status)) })
        }
    }
}

fn pipes(with_stdin: bool, input: Option<OwnedFd>) -> io::Result<(KeeperEnds, ChildEnds)> {
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
    let child = ChildEnds::Pipes { stdin: child_stdin, stdout: child_stdout, stderr: child_stderr };
    Ok((KeeperEnds { stdout, stdin, stderr: Some(stderr) }, child))
}

fn output_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    // Refused to users who already hold many pages in pipes; the default size then serves.
    let _ = rustix::pipe::fcntl_setpipe_size(&read, PIPE_BYTES);
    rustix::io::ioctl_fionbio(&read, true)?;
    Ok((read, write))
}

fn terminal(size: TerminalSize) -> io::Result<(KeeperEnds, ChildEnds)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = rustix::pty::openpt(flags)?;
    rustix::pty::unlockpt(&master)?;
    let window = Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&master, window)?;
    // By descriptor, never by a name under /dev/pts that something else could hold.
    let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags)?;
    rustix::io::ioctl_fionbio(&master, true)?;
    Ok((KeeperEnds { stdout: master, stdin: None, stderr: None }, ChildEnds::Terminal(slave)))
}

/// The child, from here to its program.
fn run(plan: &ExecPlan, streams: &ChildEnds, status: BorrowedFd<'_>, program: BorrowedFd<'_>) -> ! {
    let [stdin, stdout, stderr] = streams.as_fds();
    // The spawner's socket and every other descriptor close here, before anything that the job can influence.
    let arranged = sys::keep_only(&[stdin, stdout, stderr, status, program])
        .and_then(|()| sys::close_on_exec_from(STATUS_FD.cast_unsigned()));
    if arranged.is_ok()
        && let Ok(status) = sys::take(STATUS_FD)
        && let Ok(program) = sys::take(PROGRAM_FD)
    {
        let (stage, error) = become_program(plan, streams, program.as_fd());
        // Shorter than PIPE_BUF, so the spawner reads all of the report or none.
        let mut report = [stage as u8; 5];
        report[1..].copy_from_slice(&error.raw_os_error().unwrap_or(libc::EIO).to_le_bytes());
        drop(File::from(status).write_all(&report));
    }
    sys::leave(127)
}

fn become_program(plan: &ExecPlan, streams: &ChildEnds, program: BorrowedFd<'_>) -> (StartStage, io::Error) {
    if let Err(error) = begin_session(streams) {
        return (StartStage::Session, error);
    }
    if let Err(error) = raise_oom_score() {
        return (StartStage::Oom, error);
    }
    // The spawner blocks SIGCHLD, and an exec would pass that on to the program.
    sys::default_signals();
    if let Err(error) = enter_directory(plan) {
        return (StartStage::Directory, error);
    }
    let error = if plan.candidates.is_empty() {
        sys::exec_program(program, &plan.argv, &plan.env)
    } else {
        exec_first(plan)
    };
    (StartStage::Exec, error)
}

fn begin_session(streams: &ChildEnds) -> io::Result<()> {
    // A new session first: only its leader may take a controlling terminal, and signals to the group reach the whole command.
    rustix::process::setsid()?;
    if let ChildEnds::Terminal(_) = streams {
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
fn enter_directory(plan: &ExecPlan) -> io::Result<()> {
    rustix::process::chdir(plan.cwd.as_c_str())?;
    let reached = rustix::process::getcwd(Vec::new())?;
    if reached.to_bytes().starts_with(b"/") {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(libc::EACCES))
    }
}

/// Like execvp: goes on to the next directory if there is no such program, and prefers to report one that may not be executed.
fn exec_first(plan: &ExecPlan) -> io::Error {
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

impl ChildEnds {
    fn as_fds(&self) -> [BorrowedFd<'_>; 3] {
        match self {
            Self::Pipes { stdin, stdout, stderr } => [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()],
            Self::Terminal(slave) => [slave.as_fd(), slave.as_fd(), slave.as_fd()],
        }
    }
}

impl StatusPipe {
    /// Returns, without waiting, how far the child of this command has come.
    pub(super) fn progress(&self, command: &Command) -> StartProgress {
        let mut report = [0; 5];
        match (&self.0).read(&mut report) {
            Ok(5) => {
                let errno = i32::from_le_bytes([report[1], report[2], report[3], report[4]]);
                StartProgress::Failed { what: explain(report[0], errno, command), errno }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => StartProgress::Pending,
            // The exec has closed the pipe. So has the kill of a child that never got there; its exit follows as that of a program would.
            _ => StartProgress::Running,
        }
    }
}

impl AsFd for StatusPipe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn explain(stage: u8, errno: i32, command: &Command) -> String {
    let program = command.argv.first().map_or("", String::as_str);
    match stage {
        stage if stage == StartStage::Directory as u8 => format!("working directory `{}`", command.cwd),
        stage if stage == StartStage::Exec as u8 && errno == libc::ENOENT && !program.contains('/') => {
            format!("program `{program}` not found on PATH")
        }
        stage if stage == StartStage::Exec as u8 => format!("run `{program}`"),
        stage if stage == StartStage::Oom as u8 => "raise the process's out-of-memory score".into(),
        _ => "begin the process's session".into(),
    }
}

fn refusal(what: &str, error: &io::Error) -> SpawnRefusal {
    SpawnRefusal { what: what.into(), errno: error.raw_os_error().unwrap_or(libc::EIO) }
}
