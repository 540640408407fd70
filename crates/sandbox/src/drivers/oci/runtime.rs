//! An OCI runtime: its program, its abilities, whether its version may be used, and how it is called.
//!
//! A call is made on a thread that waits for it, so that the kernel ends the runtime together with the server: a `create`
//! that went on alone could make a container after its marker was removed.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use semver::Version;

use super::sys;
use crate::driver::IsolationLevel;
use crate::host::console;
use crate::host::requirements::{PROGRAM_PLACES, installed};
use crate::host::version::{self, CRUN_FLOORS, RUNC_FLOORS};

/// Longest call of a runtime. A call takes tens of milliseconds, many times that on a busy machine, more
/// where it boots a kernel.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest call of `--version`.
const VERSION_TIMEOUT: Duration = Duration::from_secs(10);

/// A family of runtimes that behave alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RuntimeKind {
    /// runc, and every runtime with an unknown name.
    Runc,
    /// crun, a runtime in C with the interface of runc.
    Crun,
    /// gVisor's runsc, a kernel in user space.
    Runsc,
    /// Kata Containers, a virtual machine for each container.
    Kata,
}

impl RuntimeKind {
    /// Names of runtimes, in the order in which an unnamed one is looked for.
    const NAMES: [(&'static str, Self); 4] =
        [("runc", Self::Runc), ("crun", Self::Crun), ("runsc", Self::Runsc), ("kata-runtime", Self::Kata)];

    fn of(program: &Path) -> Self {
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        match &*name {
            name if name.contains("crun") => Self::Crun,
            name if name.contains("runsc") => Self::Runsc,
            name if name.contains("kata") => Self::Kata,
            _ => Self::Runc,
        }
    }

    /// True if control groups of the host limit the job itself. A virtual machine got its memory and processors when it booted.
    pub(super) fn shares_host_limits(self) -> bool {
        self.level() < IsolationLevel::Vm
    }

    /// Returns the isolation level of its containers.
    pub(super) fn level(self) -> IsolationLevel {
        match self {
            Self::Runc | Self::Crun => IsolationLevel::Container,
            Self::Runsc => IsolationLevel::Gvisor,
            Self::Kata => IsolationLevel::Vm,
        }
    }

    /// True if its containers get user ids of their own. A virtual machine has its own anyway.
    pub(super) fn maps_users(self) -> bool {
        self != Self::Kata
    }

    /// Returns the oldest versions without known holes, one for each maintained line (CVE-2026-41579 for
    /// runc, CVE-2026-88265 for crun). Kata publishes no such list; its floor is the version whose interface
    /// the driver relies on. No version of gVisor is good enough.
    pub(super) fn floors(self) -> &'static [Version] {
        const KATA_FLOORS: &[Version] = &[Version::new(3, 0, 0)];
        match self {
            Self::Runc => RUNC_FLOORS,
            Self::Crun => CRUN_FLOORS,
            Self::Runsc => &[],
            Self::Kata => KATA_FLOORS,
        }
    }

    /// Returns why no sandbox can run in it, whatever its version.
    pub(super) fn lacks(self) -> Option<&'static str> {
        match self {
            Self::Runsc => Some("gVisor's kernel has no Landlock, by which every job is confined"),
            Self::Runc | Self::Crun | Self::Kata => None,
        }
    }
}

/// A runtime that is installed.
#[derive(Debug, Clone)]
pub(super) struct Runtime {
    pub(super) program: PathBuf,
    pub(super) kind: RuntimeKind,
    pub(super) version: Option<Version>,
    /// First line of its `--version`.
    pub(super) described: String,
}

impl Runtime {
    /// Finds a runtime by name or path, or the first that is installed.
    pub(super) fn find(wanted: Option<&str>) -> Option<Self> {
        let program = match wanted {
            Some(path) if path.contains('/') => Some(PathBuf::from(path)).filter(|path| path.is_file()),
            Some(name) => installed(name),
            None => RuntimeKind::NAMES.into_iter().find_map(|(name, _)| installed(name)),
        }?;
        let kind = RuntimeKind::of(&program);
        let text = version_text(&program).unwrap_or_default();
        let described = text.lines().next().unwrap_or("unknown version").trim().to_owned();
        Some(Self { version: version::find(&text), program, kind, described })
    }

    /// True if its version is below every floor, or unknown.
    pub(super) fn is_outdated(&self) -> bool {
        !self.version.as_ref().is_some_and(|version| version::meets(version, self.kind.floors()))
    }

    /// Returns a command of this runtime on the containers below `state`.
    pub(super) fn command(&self, state: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear().env("PATH", PROGRAM_PLACES.join(":"));
        command.arg("--root").arg(state);
        command
    }
}

/// Runs a command of a runtime to its end. The error contains its output.
pub(super) async fn call(mut command: Command) -> io::Result<()> {
    let said = console::make()?;
    command.stdout(Stdio::from(said.try_clone()?)).stderr(Stdio::from(said.try_clone()?));
    run(command, &said).await
}

/// Runs a command whose standard streams lead to `said`. The error contains its output.
pub(super) async fn run(mut command: Command, said: &OwnedFd) -> io::Result<()> {
    command.stdin(Stdio::from(File::open("/dev/null")?));
    sys::end_with_parent(&mut command);
    let waited = tokio::task::spawn_blocking(move || sys::wait(command.spawn()?, CALL_TIMEOUT));
    let status = waited.await.map_err(io::Error::other)??;
    if status.success() {
        return Ok(());
    }
    let said = console::read(said).unwrap_or_default();
    Err(io::Error::other(format!("{status}: {}", said.trim().replace('\n', " "))))
}

fn version_text(program: &Path) -> io::Result<String> {
    let said = console::make()?;
    let mut command = Command::new(program);
    command.env_clear().arg("--version").stdin(Stdio::null()).stderr(Stdio::null());
    command.stdout(Stdio::from(said.try_clone()?));
    sys::wait(command.spawn()?, VERSION_TIMEOUT)?;
    console::read_raw(&said)
}
