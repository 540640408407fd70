//! The contract between the server and the drivers that make machines.
//!
//! Every call is idempotent, may be cancelled at any await, and may be repeated after a crash of the calling process. A driver
//! keeps one durable marker for each sandbox. It creates the marker first and deletes it last, so `list` finds sandboxes that a
//! dead process left half made.
//!
//! Nothing in the contract says that a machine is on this host. An image is named by content; a driver of local machines
//! resolves it through the [`LocalImages`] it was opened with. A link is any byte stream: local drivers listen on sockets,
//! remote drivers take streams that arrive at the server's own door ([`InboundLinks`]). The liveness of a machine may be
//! [`Liveness::Unknown`] for a while, and its network may be closed by a policy only ([`NetworkIsolation`]).

mod availability;
mod binding;
mod errors;
mod images;
mod inbound_links;
mod isolation;
mod link_stream;
mod process_bounds;
mod sandbox;

pub use availability::{Availability, DriverOpenError, DriverVerdict, Offer};
pub use binding::{BindSupport, Binding, BindingPart};
pub use errors::{BindError, LinkError, ListError, PrepareImageError, StartError, StopError, UsageError};
pub(crate) use images::tree_of;
pub use images::{BadImageDigest, ImageDigest, LocalImages, ReportProgress};
pub use inbound_links::{DeliverLinkError, InboundLinks};
pub use isolation::{Isolation, IsolationLevel, NetworkIsolation};
pub use link_stream::{BoxedDuplex, LinkStream};
pub use process_bounds::ProcessBounds;
pub use sandbox::{BadSandboxId, DiskState, FoundSandbox, Limits, Liveness, SandboxId, SandboxSpec, Usage};

use std::time::Duration;

use async_trait::async_trait;

/// Starts, stops, lists and connects machines of one kind. Only the job lifecycle calls it.
#[async_trait]
pub trait Driver: Send + Sync + 'static {
    /// Returns the name in configuration, requests and status.
    fn name(&self) -> &'static str;

    /// Returns the isolation of this driver's sandboxes. Constant for the life of the process.
    fn isolation(&self) -> Isolation;

    /// Returns the most host memory that a sandbox with these limits can take. It is more than the job's limit where the disk
    /// is in memory too, or where a virtual machine needs memory of its own.
    fn memory_mib(&self, limits: &Limits) -> u64 {
        limits.memory_mib
    }

    /// Returns the most space that a sandbox with these limits can take on the file system of its workspace, in MiB. Less than
    /// the job's limit where the disk is elsewhere.
    fn disk_mib(&self, limits: &Limits) -> u64 {
        limits.disk_mib
    }

    /// Returns how long a machine may take to boot on a busy host, beyond the time that every machine gets to dial.
    fn boot_time(&self) -> Duration {
        Duration::ZERO
    }

    /// Reports whether sandboxes can start here, by starting one. Each call starts another one and may take as long as a start.
    /// Without an image to start from, the report says what is known about the host. The caller caches the answer.
    async fn availability(&self) -> Availability;

    /// Converts an image to the format that this driver needs instead of a tree: disks of a virtual machine, an image of an
    /// engine, a copy in a registry. The result is stored by content, so the call returns at once if it exists. Called before
    /// the first `start` of a sandbox from that image, by one caller at a time for each image. A call replaces a result that a
    /// cancelled call left half made. `report` receives the progress as a short text for the status of waiting jobs.
    async fn prepare_image(
        &self,
        _image: &ImageDigest,
        _report: ReportProgress<'_>,
    ) -> Result<(), PrepareImageError> {
        Ok(())
    }

    /// Starts a machine and returns when its first process runs, which is before the machine has dialled. If a sandbox with
    /// that id runs already, the call leaves it alone and succeeds. After an error only the marker and the workspace are left;
    /// `stop` removes the marker, the caller the workspace. A sandbox never starts with less isolation than `isolation` says.
    async fn start(&self, spec: &SandboxSpec) -> Result<(), StartError>;

    /// Returns the parts that [`Driver::bind`] can change. Constant for the life of the process.
    fn binds(&self) -> BindSupport {
        BindSupport::default()
    }

    /// Gives a running sandbox its final limits and, where the driver supports it, a workspace. Repeating the call with the
    /// same binding changes nothing. After an error a part of the binding may hold: the caller stops the sandbox or binds it
    /// again.
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

    /// Kills the machine and removes everything but its workspace: on return no process, mount, device, control group or socket
    /// of the sandbox is left, and the marker is gone. Succeeds if there is no such sandbox. Fails, within a time that the
    /// driver bounds, if the machine's host can't be reached; the caller tries again.
    async fn stop(&self, id: &SandboxId) -> Result<(), StopError>;

    /// Returns every sandbox of this yard that has a marker, dead or alive. Removes remains of this yard that have none, so the
    /// call costs more than the number of sandboxes suggests. The server makes it once, when it starts.
    async fn list(&self) -> Result<Vec<FoundSandbox>, ListError>;

    /// Reports whether a sandbox lives; `None` if it has no marker. Costs the same however many sandboxes there are: a server
    /// that takes over a thousand jobs asks once for each.
    async fn find(&self, id: &SandboxId) -> Result<Option<Liveness>, ListError>;

    /// Reports whether the sandbox can still write to its disk. Costs the same however many sandboxes there are.
    async fn disk_state(&self, id: &SandboxId) -> DiskState {
        let _ = id;
        DiskState::Unknown
    }

    /// Returns the resources that the machine used so far. Works until `stop`.
    async fn usage(&self, id: &SandboxId) -> Result<Usage, UsageError>;
}
