//! Virtual machines: the configuration of the first process, and the control line on which the driver asks it while the machine runs.
//!
//! The configuration is a JSON document at the start of a small read-only disk, padded with zeros. Control requests and replies are
//! lines of JSON on a serial line of their own, which neither keeper nor the job can open.

use serde::{Deserialize, Serialize};

use crate::{BootConfig, MachineSize};

/// Directory of the initrd with kernel modules, whose names sort in the order of loading.
pub const MACHINE_MODULES: &str = "/modules";
/// Directory of the initrd with Sandyard's programs, which the job may read.
pub const MACHINE_PROGRAMS: &str = "/guest";
/// The guest's program in [`MACHINE_PROGRAMS`]. The first process is a link to it: Landlock has no rules for files outside of the
/// machine's tree, so such files can't be run under Landlock.
pub const MACHINE_GUEST: &str = "sandyard-guest";
/// The kernel argument that names the disk with the configuration, as in `sandyard.boot=vdc`.
pub const MACHINE_BOOT_ARGUMENT: &str = "sandyard.boot=";
/// The longest line on the control line, in either direction.
pub const CONTROL_LINE_BYTES: usize = 4096;
/// Mount point of the control groups in a virtual machine, as init sees it.
pub const MACHINE_GROUPS: &str = "/run/init/groups";
/// Devices that every sandbox has, with the numbers that Linux assigns them.
pub const DEVICES: [(&str, u32, u32); 6] =
    [("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0)];

/// The configuration of the first process of a virtual machine.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MachineConfig {
    /// The configuration of `init`.
    pub boot: BootConfig,
    /// The host name of the machine.
    pub host_name: String,
    /// The disk with the image, such as `vda`. Mounted read-only.
    pub root: String,
    /// The disk with the workspace, such as `vdb`.
    pub disk: String,
    /// Directories of the workspace's disk and their mount points.
    pub disk_places: Vec<DiskMount>,
    /// File systems in memory.
    pub memory_places: Vec<MemoryMount>,
    /// Group id of terminals.
    pub terminal_group: u32,
    /// Limits of the job's control group.
    pub job: JobLimits,
    /// The serial line of keeper's link, if the link is a serial line.
    pub link_port: Option<LinkPort>,
    /// Name of the serial line for control requests.
    pub control_port: Option<String>,
    /// The vsock port for control requests, if the machine has no serial line for them.
    pub control_vsock: Option<u32>,
}

/// A sized file system in memory.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MemoryMount {
    /// Absolute path inside the machine. The directory is created if its parent is in memory.
    pub target: String,
    /// Maximum size of all files together, in bytes.
    pub size_bytes: u64,
    /// Maximum number of files.
    pub inodes: u64,
    /// Permission bits of the root directory.
    pub mode: u32,
    /// User and group id that own the root directory, as seen inside the machine.
    pub owner: u32,
}

/// A directory of the workspace's disk.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DiskMount {
    /// Name in the root directory of the disk.
    pub source: String,
    /// Absolute path inside the machine.
    pub target: String,
}

/// A serial line that keeper opens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkPort {
    /// Name of the port on the virtio bus.
    pub name: String,
    /// The directory in memory, hidden from the job, in which the port appears.
    pub directory: String,
    /// File name of the port in `directory`.
    pub file: String,
}

/// Limits of the job's control group inside a virtual machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobLimits {
    /// Memory; less than that of the machine, so that the job runs out of memory before the machine does.
    pub memory_bytes: u64,
    /// Maximum number of processes and threads together.
    pub pids: u64,
    /// Processor time in each period of [`JobLimits::PERIOD_US`].
    pub cpu_quota_us: u64,
}

impl JobLimits {
    /// Period of the processor quota, the kernel's default.
    pub const PERIOD_US: u64 = MachineSize::PERIOD_US;
}

/// A control request to a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlRequest {
    /// The reply repeats this number, so that a late reply to an earlier request is recognised.
    pub number: u64,
    /// The action that the driver requests.
    pub wish: ControlWish,
}

/// The actions that a control request can ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ControlWish {
    /// Report the resources that the job has used.
    Usage,
    /// End all processes, write the disks and power off. There is no reply.
    PowerOff,
}

/// The reply to a control request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControlReply {
    /// The number of the request.
    pub number: u64,
    /// Resources that the job has used.
    pub usage: JobUsage,
}

/// Counters of the job's control group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobUsage {
    /// Processor time of all processes so far, in microseconds.
    pub cpu_us: u64,
    /// Highest memory use so far, in bytes.
    pub peak_memory_bytes: u64,
    /// Processes that the kernel killed for lack of memory.
    pub memory_kills: u64,
    /// Forks that the limit on processes refused.
    pub pids_refused: u64,
}
