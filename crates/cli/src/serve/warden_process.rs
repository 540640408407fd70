//! The warden as its server sees it: a child process, started while the server is root.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use sandyard_sandbox::warden::{self, WardenClient, WorkspaceName};
use sandyard_server::config::{PROVIDERS, WorkspaceOwner};
use sandyard_server::job::JobId;

use super::lock::YardHold;
use crate::warden::{WARDEN_COMMAND, WardenPlan};

/// Longest wait for the warden to let go of its drivers. It ends a running build first, which takes about a second.
const END_TIMEOUT: Duration = Duration::from_secs(15);
/// Delay between two looks whether it has ended.
const END_CHECK: Duration = Duration::from_millis(5);

/// A running warden.
#[derive(Debug)]
pub(super) struct WardenProcess {
    pub(super) socket: OwnedFd,
    pub(super) ending: WardenEnding,
}

/// Waits for the end of a warden.
#[derive(Debug)]
pub(super) struct WardenEnding {
    child: Child,
}

impl WardenProcess {
    /// Starts the warden of a yard. It holds the yard's lock for as long as it runs.
    pub(super) fn start(plan: &WardenPlan, hold: &YardHold) -> io::Result<Self> {
        let (ours, theirs) = warden::pair()?;
        let mut command = Command::new("/proc/self/exe");
        command.arg(WARDEN_COMMAND).stdin(Stdio::from(theirs)).stdout(Stdio::null());
        // Keys of models are the server's alone.
        for provider in &PROVIDERS {
            command.env_remove(provider.key_variable);
        }
        let child = command.spawn()?;
        warden::send_plan(ours.as_fd(), plan, hold.file.as_fd())?;
        Ok(Self { socket: ours, ending: WardenEnding { child } })
    }
}

impl WardenEnding {
    /// Waits until the warden has ended, for a while. Blocks.
    pub(super) fn wait(mut self) {
        let deadline = Instant::now() + END_TIMEOUT;
        // After an error nothing is left to wait for.
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(END_CHECK);
        }
    }
}

/// Has the warden remove workspaces.
pub(super) struct WardenWorkspaces(pub(super) Arc<WardenClient>);

impl std::fmt::Debug for WardenWorkspaces {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("WardenWorkspaces")
    }
}

#[async_trait]
impl WorkspaceOwner for WardenWorkspaces {
    async fn remove(&self, job: &JobId) -> io::Result<()> {
        let name = WorkspaceName::parse(job.as_str()).ok_or(io::ErrorKind::InvalidInput)?;
        self.0.remove_workspace(&name).await
    }
}
