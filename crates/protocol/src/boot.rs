//! What the driver hands to `init` at birth, as one JSON document: on descriptor [`BOOT_FD`], or in a file that init's second
//! argument names and that the job can't read.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The descriptor on which `init` finds its [`BootConfig`], open for reading and at its start.
pub const BOOT_FD: i32 = 3;

/// Where keeper puts the job's script: a directory of keeper's that the job can read. A driver mounts a sized one there, with
/// room for `limits::CODE_BYTES`; where it doesn't, init makes it in `/run`.
pub const SCRIPTS: &str = "/run/job";
/// Where the proxy of a machine listens on its loopback, as proxies do.
pub const EGRESS_PORT: u16 = 3128;

/// An inherited descriptor, by number.
pub type BootFd = i32;

/// All that `init` needs to know. The root file system, its mounts and the outer namespaces are already in place.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BootConfig {
    /// Proves host to guest and guest to host in the hello of every link, for the sandbox's life.
    pub secret: Secret,
    /// Where keeper dials the host.
    pub link: LinkTarget,
    /// User and group id of the job's code.
    pub agent_id: u32,
    /// User and group id of init and keeper.
    pub keeper_id: u32,
    /// Where the spawner comes from.
    pub spawner: SpawnerSource,
    /// The program that works on tasks, where the machine has it as a file; otherwise the spawner may have inherited it.
    #[serde(default)]
    pub agent_program: Option<PathBuf>,
    /// Set where a container engine made the machine, which leaves more to do than our own drivers do.
    #[serde(default)]
    pub engine: Option<EngineMachine>,
    /// Keeper's own small disk; hidden from the job.
    pub spool: PathBuf,
    /// Directories of the machine that the job must not see, unmounted in the spawner's mount namespace.
    pub hidden: Vec<PathBuf>,
    /// Places the job may write, enforced by Landlock as well as by mounts.
    pub writable: Vec<PathBuf>,
    /// Open files each process of the job may hold.
    pub open_files: u64,
    /// The machine ends itself this many seconds after boot, whatever the host does.
    pub lifetime_s: u64,
    /// Whether the job may make user namespaces of its own.
    pub nested_user_namespaces: bool,
}

/// What init and spawner see to in a container of Docker or Podman: a user namespace, a /dev without what a job doesn't need, and mounts
/// without devices and set-user-id programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineMachine {
    /// First of the 65,536 ids of the host that stand for the machine's.
    pub first_id: u32,
}

/// How keeper reaches the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkTarget {
    /// A Unix socket whose directory is mounted in the sandbox; the host may replace the socket at any time.
    UnixSocket {
        /// Path of the socket as keeper sees it.
        path: PathBuf,
    },
    /// A serial line of a virtual machine. The host may go away and come back at any time; whatever it left half said is skipped.
    VirtioSerial {
        /// Path of the device as keeper sees it.
        path: PathBuf,
    },
    /// A socket to the host of a virtual machine.
    Vsock {
        /// The host's port.
        port: u32,
    },
}

impl LinkTarget {
    /// Whether keeper makes sockets that lead out of the machine.
    pub fn needs_host_sockets(&self) -> bool {
        matches!(self, Self::Vsock { .. })
    }
}

/// Who makes the spawner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpawnerSource {
    /// Init forks it and moves it into the job's control groups by writing to these `cgroup.procs` files.
    Fork {
        /// The `cgroup.procs` files of the job's groups as init sees them, one for each hierarchy; may be empty.
        cgroup_procs: Vec<PathBuf>,
    },
    /// The driver made it already; init gets keeper's end of the socket pair to it.
    Given {
        /// Keeper's end of the `SOCK_SEQPACKET` pair.
        socket: BootFd,
    },
}

/// A 32-byte secret that can't be printed by accident.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret([u8; 32]);

impl Secret {
    /// Wraps secret bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The secret itself, for a message authentication code.
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(redacted)")
    }
}
