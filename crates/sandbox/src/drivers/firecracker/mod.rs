//! Virtual machines by Firecracker: a kernel of its own for each sandbox, no network card, and one vsock as the way out.
//!
//! A start (`start`) writes the marker, makes control groups, the workspace's disk and a jail (`jail`), starts Firecracker in
//! it (`launch`) and tells it what to boot (`plan`) over its API (`api`). The guest's connection arrives at a socket in the
//! jail (`links`). From then on the machine needs no server; a later one finds it by its marker. `timer` finds the kernel's
//! part of a machine. `programs` knows versions, `availability` what is missing, `sys` holds all unsafe code. The host never
//! mounts the workspace's disk: only a guest reads a file system that a guest wrote.

mod api;
mod availability;
mod config;
mod control;
mod jail;
mod launch;
mod links;
mod owned_socket;
mod plan;
mod programs;
mod start;
mod state;
mod stop;
mod sys;
mod timer;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

pub use self::config::FirecrackerConfig;
pub use self::state::FirecrackerDriver;

use self::jail::Jails;
use self::links::FirecrackerLinks;
use self::state::FirecrackerState;
use self::timer::Timers;
use super::catalogue;
use crate::driver::{
    Availability, BoxedDuplex, Driver, DriverOpenError, FoundSandbox, ImageDigest, Isolation, IsolationLevel,
    Limits, LinkError, ListError, Liveness, PrepareImageError, ReportProgress, SandboxId, SandboxSpec,
    StartError, StopError, Usage, UsageError,
};
use crate::host::console::Consoles;
use crate::host::sandboxes::MarkedSandboxes;
use crate::host::sandboxes::ids::Supply;
use crate::host::storage::disk::Disks;
use crate::host::vm::machine_image;
use crate::host::vm::machine_plan;
use crate::image::ImageStore;
use crate::image::vm::VmImages;

/// Size of blank disks in stock: none is kept, since formatting one is nothing beside a boot.
const BLANK_DISK_MIB: u64 = 0;

impl FirecrackerDriver {
    /// Opens the driver. Starts nothing.
    pub fn open(config: FirecrackerConfig) -> Result<Self, DriverOpenError> {
        let prepare = DriverOpenError::prepare;
        let remembered = MarkedSandboxes::of(&config.data)?;
        let host = availability::FirecrackerHost::require(&config)
            .map_err(|error| error.unless_in_use(remembered.in_use))?;
        let disks = Disks::open(&config.data, BLANK_DISK_MIB).map_err(prepare("open the stock of disks"))?;
        let jails = Jails::open(&config.data, host.programs.name()).map_err(prepare("open the jails"))?;
        let state = FirecrackerState {
            images: VmImages::new(ImageStore::new(&config.cache), config.programs),
            config,
            programs: host.programs,
            sandboxes: remembered.on_host(host.layout, Supply::Host),
            disks,
            jails,
            links: FirecrackerLinks::new(plan::LINK_PORT),
            consoles: Consoles::default(),
            timers: Timers::default(),
        };
        Ok(Self { state: Arc::new(state) })
    }

    /// Returns the console output of Firecracker, the kernel and the guest, if this process started the machine.
    pub fn console(&self, id: &SandboxId) -> Option<String> {
        self.state.consoles.said(id)
    }
}

/// Returns the most host memory of a machine and its monitor.
pub(super) fn host_memory_mib(limits: &Limits) -> u64 {
    plan::host_limits(limits).memory_mib
}

#[async_trait]
impl Driver for FirecrackerDriver {
    fn name(&self) -> &'static str {
        catalogue::FIRECRACKER.name
    }

    fn isolation(&self) -> Isolation {
        Isolation::without_network(IsolationLevel::Vm, self.state.runtime())
    }

    fn memory_mib(&self, limits: &Limits) -> u64 {
        host_memory_mib(limits)
    }

    async fn availability(&self) -> Availability {
        self.state.availability(self).await
    }

    fn boot_time(&self) -> Duration {
        self.state.config.boot_time
    }

    async fn prepare_image(
        &self,
        image: &ImageDigest,
        report: ReportProgress<'_>,
    ) -> Result<(), PrepareImageError> {
        let FirecrackerState { images, config, .. } = &*self.state;
        machine_image::prepare(images, &*config.images, image, report, VmImages::unpacked).await
    }

    async fn start(&self, spec: &SandboxSpec) -> Result<(), StartError> {
        self.state.start(spec).await
    }

    async fn next_link(&self, id: &SandboxId) -> Result<BoxedDuplex, LinkError> {
        let running = self.state.sandboxes.running(id)?;
        let jail = self.state.jail(&running.record);
        running.link(self.state.links.accept(id, &jail, running.record.machine_user())).await
    }

    async fn wait_dead(&self, id: &SandboxId) {
        self.state.sandboxes.wait_dead(id).await;
    }

    async fn stop(&self, id: &SandboxId) -> Result<(), StopError> {
        self.state.remove(id).await
    }

    async fn list(&self) -> Result<Vec<FoundSandbox>, ListError> {
        self.state.sweep().await?;
        Ok(self.state.sandboxes.found()?)
    }

    async fn find(&self, id: &SandboxId) -> Result<Option<Liveness>, ListError> {
        Ok(self.state.sandboxes.find(id)?)
    }

    /// Returns the count of the machine's own kernel, which separates the job from the rest. For a machine
    /// that does not answer, returns Firecracker's usage.
    async fn usage(&self, id: &SandboxId) -> Result<Usage, UsageError> {
        let hosts = self.state.sandboxes.usage(id)?;
        let Ok(running) = self.state.sandboxes.running(id) else { return Ok(hosts) };
        let socket = self.state.jail(&running.record).vsock(running.record.machine_user());
        match control::usage(&socket, plan::CONTROL_PORT).await {
            Ok(job) => Ok(machine_plan::usage(&job)),
            Err(error) => {
                tracing::debug!(sandbox = %id, %error, "a machine tells no usage");
                Ok(hosts)
            }
        }
    }
}
