//! The contract between keeper and the process that forks for it.
//!
//! In a sandbox that is the spawner (`spawner::client`), over a socket pair, with init holding a duplicate of each output
//! descriptor so that running processes outlive keeper. In tests it is the test's own process (`local`).

mod deaf;
#[cfg(any(test, feature = "local-processes"))]
pub mod local;

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use async_trait::async_trait;
use sandyard_protocol::{ProcessId, TerminalSize};
use serde::{Deserialize, Serialize};

pub(crate) use deaf::signal_deaf;

/// As `argv[0]` of a [`Command`]: the guest's own program, whatever the image holds. The spawner execs its own file, which it keeps
/// open; in tests the role runs on a thread. The roles are `files` (`keeper::files::worker`), with the workspace as the
/// argument after it, and those of the desktop (`keeper::desktop::automation`), which tests do not have.
pub const OWN_PROGRAM: &str = "sandyard-guest";

/// Forks, signals and reaps the processes of the job.
#[async_trait]
pub trait ProcessHost: Send + Sync + 'static {
    /// Starts a program in a session and process group of its own. The id must be new. The output descriptors are
    /// non-blocking pipes (or a terminal's master, in `stdout`).
    async fn spawn(&self, command: Command) -> Result<Spawned, SpawnError>;

    /// As `spawn`, with a descriptor of the caller's as the program's standard input.
    async fn spawn_with_input(&self, command: Command, input: OwnedFd) -> Result<Spawned, SpawnError>;

    /// Signals the whole process group. Does nothing if the process is gone.
    async fn signal(&self, id: &ProcessId, signal: i32) -> Result<(), SpawnError>;

    /// Signals the members of the process's group that neither catch nor ignore the signal: sent after [`Self::signal`], it
    /// ends those that missed the signal between fork and exec. Does nothing if the process is gone.
    async fn signal_deaf(&self, id: &ProcessId, signal: i32) -> Result<(), SpawnError>;

    /// Closes the duplicate of the process's standard input that outlives keeper. The caller's own descriptor is then the last one,
    /// and closing it ends the input. Does nothing if there is none.
    async fn close_stdin(&self, id: &ProcessId) -> Result<(), SpawnError>;

    /// Kills every process of the job at once, against fork bombs too; the exits follow by `next_exit`.
    async fn kill_everything(&self) -> Result<(), SpawnError>;

    /// Returns how often `kill_everything` has returned. A process that was started at a lower count may be dying, although its
    /// pipes are still open.
    fn kills(&self) -> u64;

    /// Returns the next exit. Cancelling loses nothing. An exit is reported again after a restart of keeper,
    /// until `forget` was called for it.
    async fn next_exit(&self) -> Result<RawExit, SpawnError>;

    /// Drops the record of an ended process: its exit and its descriptors.
    async fn forget(&self, id: &ProcessId) -> Result<(), SpawnError>;

    /// Returns every process that was spawned and not forgotten, with its descriptors. Called once, when keeper starts.
    async fn survivors(&self) -> Result<Survivors, SpawnError>;
}

/// A program to start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// Name of the process, given by keeper.
    pub id: ProcessId,
    /// Program and arguments, searched for on PATH of `env`.
    pub argv: Vec<String>,
    /// Absolute working directory, resolved inside the machine by the job's own rights.
    pub cwd: String,
    /// The complete environment: the program inherits no other variable.
    pub env: BTreeMap<String, String>,
    /// Size of its terminal; `None` for pipes.
    pub terminal: Option<TerminalSize>,
    /// True if standard input is a pipe; otherwise it is `/dev/null`.
    pub stdin: bool,
}

/// A started program and the caller's ends of its streams.
#[derive(Debug)]
pub struct Spawned {
    /// Its pid in the job's namespace.
    pub pid: i32,
    /// Write end of standard input; with a terminal, `None`: write to `stdout`.
    pub stdin: Option<OwnedFd>,
    /// Read end of standard output, or a terminal's master.
    pub stdout: OwnedFd,
    /// Read end of standard error; `None` with a terminal.
    pub stderr: Option<OwnedFd>,
}

/// An ended process, as wait(2) reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawExit {
    /// Name of the process.
    pub id: ProcessId,
    /// Exit code; 128 + signal if a signal ended it.
    pub code: i32,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

/// The processes that an earlier keeper started. A process in neither list never ran, or was forgotten.
#[derive(Debug, Default)]
pub struct Survivors {
    /// Processes whose streams are still there.
    pub found: Vec<Survivor>,
    /// Processes whose streams are lost; they were ended.
    pub lost: Vec<ProcessId>,
}

/// A process that keeper's predecessor started.
#[derive(Debug)]
pub struct Survivor {
    /// The command that started it.
    pub command: Command,
    /// Its pid and descriptors.
    pub spawned: Spawned,
    /// Set if it has ended since.
    pub exit: Option<RawExit>,
}

/// A process could not be started or reached.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The program or its working directory can't be used; the text names which.
    #[error("{what}")]
    Refused {
        /// The attempted step, with its object.
        what: String,
        /// The error of the kernel, or the one that stands for a failed check.
        #[source]
        source: std::io::Error,
    },
    /// The spawner is gone, and the machine with it.
    #[error("the spawner is gone")]
    Gone,
}
