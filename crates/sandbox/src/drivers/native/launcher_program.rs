//! How the driver runs its launcher.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Program and arguments of the launcher: a program that calls `launcher_main` when given these arguments.
#[derive(Debug, Clone)]
pub struct LauncherProgram {
    /// Path of the program, usually `/proc/self/exe`.
    pub program: PathBuf,
    /// Arguments, usually [`LAUNCHER_COMMAND`](super::LAUNCHER_COMMAND) alone.
    pub arguments: Vec<String>,
}

impl LauncherProgram {
    /// Returns the command of the program with a socket as its standard input.
    pub(super) fn command(&self, socket: OwnedFd) -> Command {
        let mut command = Command::new(&self.program);
        // The environment may hold the operator's secrets; nothing of it reaches processes of a sandbox.
        command.args(&self.arguments).env_clear().stdin(Stdio::from(socket)).stdout(Stdio::null());
        command
    }
}
