//! The contract between the yard and whatever makes machines.
//!
//! Every call is idempotent, may be cancelled at any await, and may be repeated after a crash of the
//! process that made it. A driver keeps one durable marker for each sandbox, made before anything
//! else and deleted after everything else, so `list` finds whatever a dead process left half made.
//!
//! Nothing in the contract says that a machine is on this host. An image is named by content; a driver of local machines
//! resolves it through the [`LocalImages`] it was opened with. A link is any byte stream: local drivers listen on sockets,
//! remote ones take what arrives at the server's door ([`InboundLinks`]). Whether a machine lives may be
//! [`Liveness::Unknown`] for a while, and its network may be closed by a policy only ([`NetworkIsolation`]).

mod availability;
mod binding;
mod errors;
mod images;
mod inbound_links;

pub use availability::{Availability, Offer, OpenError, Verdict};
pub use binding::{BindSupport, Binding, BindingPart};
pub(crate) use errors::with_sources;
pub use errors::{BindError, LinkError, ListError, PrepareImageError, StartError, StopError, UsageError};
pub(crate) use images::tree_of;
pub use images::{ImageDigest, LocalImages};
pub use inbound_links::{DeliverLinkError, InboundLinks};

use std::fmt;
use std::path::PathBuf;
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

    /// Makes what this driver needs of an image in another form than a tree: disks of a virtual machine, an image of an engine,
    /// a copy in a registry. Kept by content, so it returns at once when it is there. Called before the first `start` of a
    /// sandbox from that image, by one caller at a time for each image; what a cancelled call left half made, the next one
    /// replaces. `report` receives the progress, in a few words for the status of waiting jobs.
    async fn prepare_image(
        &self,
        _image: &ImageDigest,
        _report: Report<'_>,
    ) -> Result<(), PrepareImageError> {
        Ok(())
    }

    /// Starts a machine and returns when its first process runs, which is before it has dialled.
    /// A sandbox of that id that already runs is left alone and reported as started. On an error nothing is left
    /// but the marker and the workspace, both of which `stop` and the caller remove. It never starts with
    /// less isolation than `isolation` says.
    async fn start(&self, spec: &SandboxSpec) -> Result<(), StartError>;

    /// Reports what [`Driver::bind`] can change. Constant for the life of the process.
    fn binds(&self) -> BindSupport {
        BindSupport::default()
    }

    /// Gives a running sandbox its final limits and, where the driver is able to, a workspace. Binding the same again changes
    /// nothing. After an error some of it may hold: the caller stops the sandbox or binds it again.
    async fn bind(&self, id: &SandboxId, binding: &Binding) -> Result<(), BindError> {
        let _ = (id, binding);
        Err(BindError::Unsupported { driver: self.name(), part: BindingPart::Limits })
    }

    /// Waits for the next time this sandbox dials the host. Works after a restart of the server too.
    /// Cancelling it loses no connection that has not been returned. Fails with [`LinkError::NotRunning`] only if the machine is
    /// known to be dead; while its state is [`Liveness::Unknown`] the call goes on waiting, because the machine may dial.
    async fn next_link(&self, id: &SandboxId) -> Result<BoxedDuplex, LinkError>;

    /// Returns when the machine is known to be dead, at once if it is or never was. Goes on waiting while its state is
    /// [`Liveness::Unknown`].
    async fn wait_dead(&self, id: &SandboxId);

    /// Kills the machine and removes all of it but its workspace: when this returns, no process, mount, device, control
    /// group or socket of it is left, and the marker is gone. Succeeds if there is nothing. Fails, within a time that the driver
    /// bounds, if the machine's host can't be reached; the caller tries again.
    async fn stop(&self, id: &SandboxId) -> Result<(), StopError>;

    /// Every sandbox with a marker, dead or alive, of this yard only.
    async fn list(&self) -> Result<Vec<FoundSandbox>, ListError>;

    /// Reports whether a sandbox lives. One without a marker is dead.
    async fn liveness(&self, id: &SandboxId) -> Result<Liveness, ListError> {
        let found = self.list().await?.into_iter().find(|found| found.id == *id);
        Ok(found.map_or(Liveness::Dead, |found| found.liveness))
    }

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
    /// The image of its root file system, which it gets read-only.
    pub image: ImageDigest,
    /// A directory on the server's host, made by the caller and kept by it, in which a driver of local machines holds the
    /// machine's writable disk. Starting another sandbox on the same directory later finds the same files. A driver of remote
    /// machines keeps the disk where the machine is and leaves the directory empty.
    pub workspace: PathBuf,
    /// How much it may use.
    pub limits: Limits,
    /// The machine ends itself after this long, even while no server runs.
    pub lifetime_s: u64,
    /// Shared by host and guest for the hello of each link.
    pub secret: Secret,
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
    /// Network that the machine has beside its link.
    #[serde(default)]
    pub network: NetworkIsolation,
}

impl Isolation {
    /// The isolation of machines without a network card.
    pub fn without_network(level: IsolationLevel, runtime: impl Into<String>) -> Self {
        Self { level, runtime: runtime.into(), network: NetworkIsolation::None }
    }
}

/// What keeps a machine from reaching anything but the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NetworkIsolation {
    /// The machine has no network card; its link is the only way out.
    #[default]
    None,
    /// The machine has a network card, and a policy of its cluster closes every way but the one to the server. As strong as
    /// the cluster's enforcement.
    Policy,
}

/// Whether a sandbox lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// Its machine runs: by pid, start time and boot id, or by the word of its host; never by pid alone.
    Alive,
    /// Its machine is dead or was never whole.
    Dead,
    /// Nobody can tell now, because its host or cluster can't be reached. The caller asks again: a sandbox that is called dead
    /// by mistake costs its job, and starting a second one beside it breaks the promise that a job runs once.
    Unknown,
}

impl Liveness {
    /// The liveness of a machine that is certain either way.
    pub fn known(alive: bool) -> Self {
        if alive { Self::Alive } else { Self::Dead }
    }
}

/// A sandbox that has a marker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundSandbox {
    /// Its name.
    pub id: SandboxId,
    /// Whether its machine lives.
    pub liveness: Liveness,
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
