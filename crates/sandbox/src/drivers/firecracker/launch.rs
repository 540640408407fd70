//! Starting Firecracker itself, through the jailer.
//!
//! Firecracker is in a session and in control groups of its own from its first instruction on, so its
//! successor finds everything that a killed server leaves. Its standard output is the machine's console,
//! which can't grow.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::jail::{API_SOCKET, Jail, Placed};
use super::state::FirecrackerState;
use super::sys::{self, SpawnPlace};
use crate::host::cgroup::Groups;
use crate::host::sandboxes::liveness::ProcessIdentity;
use crate::host::sandboxes::records::SandboxRecord;

/// Longest run of the jailer. It copies a program of a few megabytes and makes some nodes; the rest is room
/// for a busy machine.
const JAIL_TIMEOUT: Duration = Duration::from_secs(30);
/// Firecracker's log level. Its warnings are only about ports that the guest probes and that don't exist.
const LOG_LEVEL: &str = "Error";
/// Namespaces that the jailer does not make. The mount namespace holds the files of the jail, the network
/// namespace is empty.
const NAMESPACES: libc::c_int =
    libc::CLONE_NEWNS | libc::CLONE_NEWNET | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;

impl FirecrackerState {
    /// Starts Firecracker and returns its identity. It may not listen yet.
    pub(super) async fn launch(
        &self,
        record: &SandboxRecord,
        jail: &Jail,
        files: &[Placed],
        console: &OwnedFd,
    ) -> io::Result<ProcessIdentity> {
        let groups = self.sandboxes.groups(record);
        let place =
            SpawnPlace { entrances: entrances(&groups)?, namespaces: NAMESPACES, binds: jail.bind(files)? };
        let user = record.machine_user().to_string();
        let mut command = Command::new(&self.programs.jailer);
        command
            .args(["--id", record.id.as_str(), "--uid", &user, "--gid", &user])
            .arg("--exec-file")
            .arg(&self.programs.firecracker)
            .arg("--chroot-base-dir")
            .arg(&jail.base)
            .args(["--new-pid-ns", "--", "--api-sock", API_SOCKET, "--level", LOG_LEVEL])
            .env_clear()
            .stdin(Stdio::null())
            .stdout(console.try_clone()?)
            .stderr(console.try_clone()?);
        let jailer = reap(sys::spawn(&mut command, place)?)?;
        jailed(jail, &groups, jailer).await
    }
}

/// Opens the files through which Firecracker enters its groups.
fn entrances(groups: &Groups) -> io::Result<Vec<OwnedFd>> {
    let (_, job) = groups.entrances();
    job.iter().map(|path| Ok(OpenOptions::new().write(true).open(path)?.into())).collect()
}

/// Waits for a child in the background, even if the start fails. The task ends with the process.
fn reap(mut child: Child) -> io::Result<JoinHandle<io::Result<ExitStatus>>> {
    let identity = ProcessIdentity::of(child.id().cast_signed())?;
    Ok(tokio::spawn(async move {
        identity.wait_dead().await;
        child.wait()
    }))
}

/// Returns the process that the jailer left in the jail.
async fn jailed(
    jail: &Jail,
    groups: &Groups,
    jailer: JoinHandle<io::Result<ExitStatus>>,
) -> io::Result<ProcessIdentity> {
    let ended = timeout(JAIL_TIMEOUT, jailer).await.map_err(|_| io::ErrorKind::TimedOut)?;
    let status = ended.map_err(io::Error::other)??;
    if !status.success() {
        return Err(io::Error::other(format!("the jailer failed ({status})")));
    }
    let pid = jail.pid()?;
    // A process outside of the sandbox's groups could not be found again by the marker, nor killed with them.
    if !groups.processes()?.contains(&pid) {
        return Err(io::Error::other("Firecracker ended at once"));
    }
    ProcessIdentity::of(pid)
}
