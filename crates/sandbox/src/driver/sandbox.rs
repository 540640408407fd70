//! Types of the contract: a sandbox's id, its specification, its liveness and its usage.

use std::fmt;
use std::path::PathBuf;

use sandyard_protocol::{JobLimits, Secret};
use serde::{Deserialize, Serialize};

use super::images::ImageDigest;

/// Beginning of the ids of trials; ids of jobs' sandboxes begin otherwise.
const TRIAL: &str = "probe-";

/// Names a sandbox: a lower-case DNS label of at most 63 bytes, never used twice.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SandboxId(String);

/// A text is no id of a sandbox.
#[derive(Debug, thiserror::Error)]
#[error("a sandbox's id is a lower-case DNS label")]
pub struct BadSandboxId;

impl TryFrom<String> for SandboxId {
    type Error = BadSandboxId;

    fn try_from(text: String) -> Result<Self, BadSandboxId> {
        Self::parse(&text).ok_or(BadSandboxId)
    }
}

impl From<SandboxId> for String {
    fn from(id: SandboxId) -> Self {
        id.0
    }
}

impl SandboxId {
    /// Accepts a lower-case DNS label, because the id becomes a path, a control group and a host name.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = (1..=63).contains(&text.len());
        let clean =
            text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        (fits && clean && !text.starts_with('-') && !text.ends_with('-')).then(|| Self(text.to_owned()))
    }

    /// Makes the id of a driver's trial, which belongs to no job.
    pub(crate) fn of_trial(token: u64) -> Self {
        Self(format!("{TRIAL}{token:016x}"))
    }

    /// True for the id of a driver's trial.
    pub(crate) fn is_trial(&self) -> bool {
        self.0.starts_with(TRIAL)
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SandboxId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Specification from which a driver starts one machine.
#[derive(Debug, Clone)]
pub struct SandboxSpec {
    /// Id of the sandbox.
    pub id: SandboxId,
    /// Image of the root file system, which is read-only inside.
    pub image: ImageDigest,
    /// Directory on the server's host, made and kept by the caller, in which a driver of local machines holds
    /// the machine's writable disk. Another sandbox on the same directory later finds the same files. A
    /// driver of remote machines keeps the disk where the machine is and leaves the directory empty.
    pub workspace: PathBuf,
    /// Limits of the job.
    pub limits: Limits,
    /// Seconds after which the machine ends itself, even while no server runs.
    pub lifetime_s: u64,
    /// Secret by which host and guest authenticate each link.
    pub secret: Secret,
}

/// Resources that a machine may use.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Processors; a fraction is a part of one.
    pub cpus: f64,
    /// Memory of the job, swap included.
    pub memory_mib: u64,
    /// Writable disk: workspace, home and temporary files together.
    pub disk_mib: u64,
    /// Most processes and threads that the job may have at once.
    pub pids: u64,
    /// Mebibytes that the job may read from the host's disks in a second, and write to them, where the host can limit it.
    #[serde(default = "usual_io_mib_s")]
    pub io_mib_s: u64,
}

/// Half of what a disk of the SATA kind does, and what rented disks do.
fn usual_io_mib_s() -> u64 {
    256
}

impl Limits {
    /// Returns the processor time in each period of [`JobLimits::PERIOD_US`]. The kernel accepts no less than 1 ms.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "clamped to a range that fits"
    )]
    pub(crate) fn cpu_quota_us(&self) -> u64 {
        (self.cpus * JobLimits::PERIOD_US as f64).clamp(1_000.0, 1e12) as u64
    }
}

impl Default for Limits {
    /// A small development machine.
    fn default() -> Self {
        Self { cpus: 2.0, memory_mib: 2048, disk_mib: 4096, pids: 1024, io_mib_s: usual_io_mib_s() }
    }
}

/// State of a sandbox's machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Liveness {
    /// The machine runs. Judged by pid, start time and boot id, or reported by its host; never judged by pid alone.
    Alive,
    /// The machine is dead or was never complete.
    Dead,
    /// Not known now, because the machine's host or cluster can't be reached. The caller asks again: a sandbox that is taken
    /// for dead by mistake costs its job, and a second one beside it breaks the promise that a job runs once.
    Unknown,
}

impl Liveness {
    /// Converts a certain answer.
    pub fn known(alive: bool) -> Self {
        if alive { Self::Alive } else { Self::Dead }
    }
}

/// State of the disk that holds a sandbox's workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum DiskState {
    /// The sandbox can write.
    Writable,
    /// The file system has stopped to write for good, as ext4 does when its host loses writes. A new sandbox on the same
    /// workspace repairs it.
    ReadOnly,
    /// The host can't see it: the disk is mounted by a kernel of its own, or is in memory.
    Unknown,
}

/// A sandbox that has a marker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundSandbox {
    /// Id of the sandbox.
    pub id: SandboxId,
    /// Liveness of its machine.
    pub liveness: Liveness,
}

/// Resources that a machine used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Processor time of the job.
    pub cpu_s: f64,
    /// Memory of the job now; `None` if the driver can't tell.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// Highest memory of the job.
    pub peak_memory_bytes: u64,
    /// Number of processes of the job that the kernel killed for lack of memory.
    pub memory_kills: u64,
    /// Number of forks that the process limit refused.
    pub pids_refused: u64,
}
