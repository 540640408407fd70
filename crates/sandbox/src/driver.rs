//! The contract between the yard and whatever makes machines.
//!
//! Every call is idempotent, may be cancelled at any await, and may be repeated after a crash of the
//! process that made it. A driver keeps one durable marker for each sandbox, made before anything
//! else and deleted after everything else, so `list` finds whatever a dead process left half made.

mod availability;
mod errors;

pub use availability::{Availability, FindImage, Offer, OpenError, ProbeImage, Verdict};
pub(crate) use errors::with_sources;
pub use errors::{LinkError, ListError, PrepareImageError, StartError, StopError, UsageError};

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use sandyard_protocol::Secret;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};

/// Starts, stops, lists and connects machines of one kind. Called by reconcile alone.
#[async_trait]
pub trait Driver: Send + Sync + 'static {
    /// The name in configuration, requests and status.
    fn name(&self) -> &'static str;

    /// What a sandbox of this driver gets. Constant for the life of the process.
    fn isolation(&self) -> Isolation;

    /// The most of the host's memory that a sandbox with these limits can take. More than the job's own where its disk is
    /// in memory too.
    fn memory_mib(&self, limits: &Limits) -> u64 {
        limits.memory_mib
    }

    /// How long a machine may take to boot on a busy host, beyond what the yard gives every machine to dial.
    fn boot_time(&self) -> Duration {
        Duration::ZERO
    }

    /// Whether sandboxes can start here, found out by really starting one: each call tries anew, and may take as long as a
    /// start. Until there is an image to try with, what is known without. The caller keeps the answer.
    async fn availability(&self) -> Availability;

    /// Makes what this driver needs of an image in another form than a tree: disks of a virtual machine, an image of an engine.
    /// Kept by content, so it returns at once when it is there. Called before the first `start` of a sandbox from that tree, by
    /// one caller at a time for each tree; what a cancelled call left half made, the next one replaces. `report` is told how
    /// far it is, in a few words for the status of waiting jobs.
    async fn prepare_image(&self, _image_root: &Path, _report: Report<'_>) -> Result<(), PrepareImageError> {
        Ok(())
    }

    /// Starts a machine and returns when its first process runs, which is before it has dialled.
    /// A sandbox of that id that already runs is left alone and reported as started. On an error nothing is left
    /// but the marker and the workspace, both of which `stop` and the caller remove. It never starts with
    /// less isolation than `isolation` says.
    async fn start(&self, spec: &SandboxSpec) -> Result<(), StartError>;

    /// Waits for the next time this sandbox dials the host. Works after a restart of the server too.
    /// Cancelling it loses no connection that has not been returned.
    async fn next_link(&self, id: &SandboxId) -> Result<BoxedDuplex, LinkError>;

    /// Returns when the machine is dead, at once if it is or never was.
    async fn wait_dead(&self, id: &SandboxId);

    /// Kills the machine and removes all of it but its workspace: when this returns, no process, mount, device, control
    /// group or socket of it is left, and the marker is gone. Succeeds if there is nothing.
    async fn stop(&self, id: &SandboxId) -> Result<(), StopError>;

    /// Every sandbox with a marker, dead or alive, of this yard only.
    async fn list(&self) -> Result<Vec<FoundSandbox>, ListError>;

    /// What the machine used so far. Works until `stop`.
    async fn usage(&self, id: &SandboxId) -> Result<Usage, UsageError>;
}

/// Told how far a preparation is: `docker image 40 %`.
pub type Report<'a> = &'a (dyn Fn(String) + Send + Sync);

/// Any duplex byte stream.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin + 'static {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Duplex for T {}

/// A byte stream whose kind the caller need not know.
pub type BoxedDuplex = Box<dyn Duplex>;

/// Names a sandbox: a lower-case DNS label of at most 63 bytes, never used twice.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SandboxId(String);

impl SandboxId {
    /// Accepts a lower-case DNS label, because the id becomes a path, a control group and a host name.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = (1..=63).contains(&text.len());
        let clean =
            text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        (fits && clean && !text.starts_with('-') && !text.ends_with('-')).then(|| Self(text.to_owned()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SandboxId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Everything a driver needs to make one machine.
#[derive(Debug, Clone)]
pub struct SandboxSpec {
    /// Its name.
    pub id: SandboxId,
    /// Root file system tree of the image, read-only and shared.
    pub image_root: PathBuf,
    /// A directory on the host, made by the caller and kept by it, in which the driver holds the machine's writable
    /// disk. Starting another sandbox on the same directory later finds the same files.
    pub workspace: PathBuf,
    /// How much it may use.
    pub limits: Limits,
    /// The machine ends itself after this long, even while no server runs.
    pub lifetime_s: u64,
    /// Shared by host and guest for the hello of each link.
    pub secret: Secret,
    /// Whether the job may make user namespaces of its own.
    pub nested_user_namespaces: bool,
}

/// What a machine may use.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Processors, in parts of one.
    pub cpus: f64,
    /// Memory of the job, swap included.
    pub memory_mib: u64,
    /// Writable disk: workspace, home and temporary files together.
    pub disk_mib: u64,
    /// Processes and threads.
    pub pids: u64,
}

impl Default for Limits {
    /// A small development machine.
    fn default() -> Self {
        Self { cpus: 2.0, memory_mib: 2048, disk_mib: 4096, pids: 1024 }
    }
}

/// How strong the wall is. Ordered: a floor is met by itself and everything above.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IsolationLevel {
    /// No wall at all: the `fake` driver.
    None,
    /// Shares the host's kernel.
    Container,
    /// A kernel in user space in between.
    Gvisor,
    /// A kernel of its own.
    Vm,
}

impl IsolationLevel {
    /// All of them, weakest first.
    pub const ALL: [Self; 4] = [Self::None, Self::Container, Self::Gvisor, Self::Vm];

    /// Its name in requests and status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Container => "container",
            Self::Gvisor => "gvisor",
            Self::Vm => "vm",
        }
    }

    /// The level of that name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == text)
    }
}

/// What a driver's sandboxes get.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Isolation {
    /// Its place in the order of floors.
    pub level: IsolationLevel,
    /// The means, for the status: `namespaces+seccomp+landlock`.
    pub runtime: String,
}

/// A sandbox that has a marker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundSandbox {
    /// Its name.
    pub id: SandboxId,
    /// Whether its machine is alive: by pid, start time and boot id, never by pid alone.
    pub alive: bool,
}

/// What a machine used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Processor time of the job.
    pub cpu_s: f64,
    /// Highest memory of the job.
    pub peak_memory_bytes: u64,
    /// How often the kernel killed a process of the job for lack of memory.
    pub memory_kills: u64,
    /// How often a fork was refused by the process limit.
    pub pids_refused: u64,
}
