//! What keeper needs of whoever forks for it.
//!
//! In a sandbox that is the spawner, over a socket pair, with init holding a duplicate of each output descriptor so that
//! running things outlive keeper. In tests it is this process itself. Keeper knows only this contract.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use async_trait::async_trait;
use sandyard_protocol::{ProcessId, TerminalSize};
use serde::{Deserialize, Serialize};

/// As `argv[0]` of a [`Command`]: this program itself, whatever the image holds. The spawner execs its own retained file;
/// in tests the role runs on a thread. The roles asked for are `files` (`keeper::files::worker`), with the workspace as the
/// argument after it, and those of the desktop (`keeper::desktop::hands`), which tests do not have.
pub const OWN_PROGRAM: &str = "sandyard-guest";

/// Forks, signals and reaps the processes of the job.
#[async_trait]
pub trait ProcessHost: Send + Sync + 'static {
    /// Starts a program in a session and process group of its own. The id must be new. The output descriptors are
    /// non-blocking pipes (or a terminal's master, in `stdout`).
    async fn spawn(&self, command: Command) -> Result<Spawned, SpawnError>;

    /// As `spawn`, with a descriptor of the caller's as the program's standard input.
    async fn spawn_with_input(&self, command: Command, input: OwnedFd) -> Result<Spawned, SpawnError>;

    /// Sends a signal to the process's whole group. Nothing happens if it is gone.
    async fn signal(&self, id: &ProcessId, signal: i32) -> Result<(), SpawnError>;

    /// Drops whatever duplicate of the process's standard input outlives keeper, so that the caller's own is the last one
    /// and dropping it is the end of input. Nothing happens if there is none.
    async fn close_stdin(&self, id: &ProcessId) -> Result<(), SpawnError>;

    /// Kills every process of the job at once, against fork bombs too; the exits follow by `next_exit`.
    async fn kill_everything(&self) -> Result<(), SpawnError>;

    /// The next process that ended. Cancelling it loses nothing. An exit is told again after a restart of keeper
    /// until `forget` was called for it.
    async fn next_exit(&self) -> Result<RawExit, SpawnError>;

    /// Drops what is kept of an ended process: its exit and its descriptors.
    async fn forget(&self, id: &ProcessId) -> Result<(), SpawnError>;

    /// Everything that was spawned and not forgotten, with its descriptors: asked once, when keeper starts.
    async fn survivors(&self) -> Result<Survivors, SpawnError>;
}

/// A program to start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// Its name.
    pub id: ProcessId,
    /// Program and arguments, looked up on PATH of `env`.
    pub argv: Vec<String>,
    /// Absolute working directory, resolved inside the machine by the job's own rights.
    pub cwd: String,
    /// The whole environment.
    pub env: BTreeMap<String, String>,
    /// With a terminal of this size.
    pub terminal: Option<TerminalSize>,
    /// Whether standard input is a pipe; otherwise it is `/dev/null`.
    pub stdin: bool,
}

/// A started program.
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

/// An ended process as wait(2) tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawExit {
    /// Which.
    pub id: ProcessId,
    /// Exit code; 128 + signal if a signal ended it.
    pub code: i32,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

/// What keeper's predecessor started. What is in neither list never ran, or was forgotten.
#[derive(Debug, Default)]
pub struct Survivors {
    /// Those whose streams are still there.
    pub found: Vec<Survivor>,
    /// Those that ran, but whose streams are lost; they were ended.
    pub lost: Vec<ProcessId>,
}

/// A process that keeper's predecessor started.
#[derive(Debug)]
pub struct Survivor {
    /// What was started.
    pub command: Command,
    /// Its descriptors.
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
        /// What was tried, with its object.
        what: String,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
    /// The spawner is gone, and the machine with it.
    #[error("the spawner is gone")]
    Gone,
}
