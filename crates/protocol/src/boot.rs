//! The configuration that a driver gives `init` at its start, as one JSON document: on descriptor [`BOOT_FD`], or in a file that
//! the second argument of init names and that the job can't read.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The descriptor on which `init` finds its [`BootConfig`], open for reading and at its start.
pub const BOOT_FD: i32 = 3;

/// The directory in which keeper stores the job's script for the job to read. A driver mounts a file system with room for
/// `limits::CODE_BYTES` there; without one, init creates the directory in `/run`.
pub const SCRIPTS: &str = "/run/job";
/// The loopback port of the machine's HTTP proxy, the customary port of proxies.
pub const EGRESS_PORT: u16 = 3128;

/// An inherited descriptor, by number.
pub type BootFd = i32;

/// The configuration of `init`. The root file system, its mounts and the outer namespaces exist before init starts.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BootConfig {
    /// Host and guest prove with it that they belong together, in the hello of every link, for the sandbox's life.
    pub secret: Secret,
    /// The address at which keeper dials the host.
    pub link: LinkTarget,
    /// User and group id of the job's code.
    pub agent_id: u32,
    /// User and group id of init and keeper.
    pub keeper_id: u32,
    /// How init gets its spawner.
    pub spawner: SpawnerSource,
    /// The agent's program, if the machine has one.
    #[serde(default)]
    pub agent_program: Option<PathBuf>,
    /// Set if a container engine created the machine, which leaves more work to init than our own drivers do.
    #[serde(default)]
    pub engine: Option<EngineMachine>,
    /// Keeper's own small disk, which is hidden from the job.
    pub spool: PathBuf,
    /// Directories that the job must not see: they are unmounted in the spawner's mount namespace.
    pub hidden: Vec<PathBuf>,
    /// Directories that the job may write to. Landlock and the mounts both enforce this.
    pub writable: Vec<PathBuf>,
    /// Open files of each process of the job.
    pub open_files: u64,
    /// The machine shuts down this many seconds after boot, even without the host.
    pub lifetime_s: u64,
    /// Seconds that a machine of this host may take to boot; programs inside get as much more time to start. 0 for containers.
    #[serde(default)]
    pub boot_time_s: u64,
    /// The size that programs of the job see; without it they see that of the kernel's machine.
    #[serde(default)]
    pub size: Option<MachineSize>,
}

/// The size of a machine by the limits of its job. Programs choose by it how many threads they start and how much they keep in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineSize {
    /// Processor time in each period of [`MachineSize::PERIOD_US`].
    pub cpu_quota_us: u64,
    /// Memory of the job.
    pub memory_bytes: u64,
    /// Maximum number of processes and threads together.
    pub pids: u64,
}

impl MachineSize {
    /// Length of a period of processor time.
    pub const PERIOD_US: u64 = 100_000;

    /// Returns the number of processors that are worth using at once.
    pub fn processors(&self) -> usize {
        let whole = self.cpu_quota_us.div_ceil(Self::PERIOD_US).max(1);
        usize::try_from(whole).unwrap_or(usize::MAX)
    }
}

/// Extra work of init and spawner in a container of Docker or Podman: a user namespace, a minimal /dev, and mounts without devices
/// and set-user-id programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineMachine {
    /// First of the 65,536 host ids that the machine's ids are mapped to.
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
    /// A serial line of a virtual machine. The host may disconnect and reconnect at any time; leftovers of the earlier connection are
    /// skipped.
    VirtioSerial {
        /// Path of the device as keeper sees it.
        path: PathBuf,
    },
    /// A socket to the host of a virtual machine.
    Vsock {
        /// The vsock port on which the host listens.
        port: u32,
    },
}

impl LinkTarget {
    /// True if keeper creates sockets that lead out of the machine.
    pub fn needs_host_sockets(&self) -> bool {
        matches!(self, Self::Vsock { .. })
    }

    /// True if the link leads out of a virtual machine, whose kernel is its own.
    pub fn leaves_virtual_machine(&self) -> bool {
        !matches!(self, Self::UnixSocket { .. })
    }
}

/// How init gets its spawner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpawnerSource {
    /// Init forks the spawner and moves it into the job's control groups by writing to `cgroup.procs` files.
    Fork {
        /// The `cgroup.procs` files of the job's groups as init sees them, one for each hierarchy; may be empty.
        cgroup_procs: Vec<PathBuf>,
    },
    /// The driver has started the spawner; init gets keeper's end of the socket pair.
    Given {
        /// Keeper's end of the `SOCK_SEQPACKET` pair.
        socket: BootFd,
    },
}

/// A 32-byte secret that can't be printed by accident.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret([u8; 32]);

impl Secret {
    /// Wraps the bytes of a secret.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes, for a message authentication code.
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(redacted)")
    }
}
