//! How the driver runs its launcher.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// How to run the launcher: a program that calls `launcher_main` when given these arguments.
#[derive(Debug, Clone)]
pub struct LauncherProgram {
    /// Usually `/proc/self/exe`.
    pub program: PathBuf,
    /// Usually [`LAUNCHER_COMMAND`](super::LAUNCHER_COMMAND) alone.
    pub arguments: Vec<String>,
}

impl LauncherProgram {
    /// The program with a socket as its standard input.
    pub(super) fn command(&self, socket: OwnedFd) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).env_clear().stdin(Stdio::from(socket)).stdout(Stdio::null());
        command
    }
}
