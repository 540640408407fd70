//! What a driver tells the first process of a virtual machine, and what it asks it while the machine runs.
//!
//! The configuration is a JSON document at the start of a small read-only disk, padded with zeros. Questions and answers are
//! lines of JSON on a serial line of their own, which neither keeper nor the job can open.

use serde::{Deserialize, Serialize};

use crate::BootConfig;

/// Where modules lie in the initrd, in the order in which they are loaded.
pub const MACHINE_MODULES: &str = "/modules";
/// The folder of the initrd with our programs, which the job may read.
pub const MACHINE_PROGRAMS: &str = "/guest";
/// The guest's own program in it. The first process is the same by a link, because files outside of a machine's tree are beyond
/// every rule of Landlock and so can't be run under one.
pub const MACHINE_GUEST: &str = "sandyard-guest";
/// The argument of the kernel that names the disk with the configuration: `sandyard.boot=vdc`.
pub const MACHINE_BOOT_ARGUMENT: &str = "sandyard.boot=";
/// The longest line either side says on the control line.
pub const CONTROL_LINE_BYTES: usize = 4096;
/// Where the control groups of a virtual machine are, as its first processes see them.
pub const MACHINE_GROUPS: &str = "/run/init/groups";
/// Devices that every sandbox has, with the numbers that Linux assigns them.
pub const DEVICES: [(&str, u32, u32); 6] =
    [("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0)];

/// All that the first process of a virtual machine needs to know.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MachineConfig {
    /// What `init` is told.
    pub boot: BootConfig,
    /// The machine's name.
    pub host_name: String,
    /// The disk with the image, such as `vda`. Mounted read-only.
    pub root: String,
    /// The workspace's disk.
    pub disk: String,
    /// Directories of the workspace's disk and where they appear.
    pub disk_places: Vec<DiskMount>,
    /// File systems in memory.
    pub memory_places: Vec<MemoryMount>,
    /// Group of terminals.
    pub terminal_group: u32,
    /// What the job may use.
    pub job: JobLimits,
    /// The serial line that becomes keeper's link, if that is one.
    pub link_port: Option<LinkPort>,
    /// The name of the serial line on which the driver asks.
    pub control_port: Option<String>,
    /// The port at which the machine waits for the driver's questions, where they come over vsock.
    pub control_vsock: Option<u32>,
}

/// A sized file system in memory.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MemoryMount {
    /// Absolute path inside; made if its parent is itself in memory.
    pub target: String,
    /// Most bytes it holds.
    pub size_bytes: u64,
    /// Most files it holds.
    pub inodes: u64,
    /// Permission bits of its root.
    pub mode: u32,
    /// Owner of its root, user and group, as seen inside.
    pub owner: u32,
}

/// A directory of the disk.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DiskMount {
    /// Name in the root of the disk.
    pub source: String,
    /// Absolute path inside.
    pub target: String,
}

/// A serial line that keeper opens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkPort {
    /// Its name on the bus.
    pub name: String,
    /// The directory, in memory and hidden from the job, in which it appears.
    pub directory: String,
    /// Its file name there.
    pub file: String,
}

/// Limits of the job's control group inside a virtual machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobLimits {
    /// Memory; below that of the machine, so that the job runs out of it first.
    pub memory_bytes: u64,
    /// Processes and threads.
    pub pids: u64,
    /// Processor time in each period of [`JobLimits::PERIOD_US`].
    pub cpu_quota_us: u64,
}

impl JobLimits {
    /// The period of the quota, the kernel's default.
    pub const PERIOD_US: u64 = 100_000;
}

/// A question to a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlRequest {
    /// Comes back with the answer, so that the answer to an earlier question is not taken for this one's.
    pub number: u64,
    /// What is wanted.
    pub wish: ControlWish,
}

/// What can be asked of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlWish {
    /// What the job used so far.
    Usage,
    /// End everything, write all to the disks and switch off. There is no answer but the end.
    PowerOff,
}

/// An answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlReply {
    /// That of the question.
    pub number: u64,
    /// What the job used.
    pub usage: JobUsage,
}

/// Counters of the job's control group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobUsage {
    /// Processor time.
    pub cpu_us: u64,
    /// Highest memory.
    pub peak_memory_bytes: u64,
    /// Processes that the kernel killed for lack of memory.
    pub memory_kills: u64,
    /// Forks refused by the limit.
    pub pids_refused: u64,
}
