//! Virtual machines by QEMU: a kernel of their own behind every sandbox, on any machine that distributions are made for.
//!
//! A start (`start`) opens the image's kernel, initrd and disk, makes the workspace's disk and the machine's document
//! (`guest_plan`), and runs QEMU (`command`) confined (`sys`) in control groups of its own. From then on the machine needs no
//! server: its sockets (`sockets`) are QEMU's, and a later server finds them by the marker. Keeper's link is one serial line
//! (`links`), the driver's questions go over another (`control`). The accelerator is tried by booting a machine
//! (`acceleration`): a host's KVM may exist and boot nothing.

mod acceleration;
mod command;
mod config;
mod control;
mod guest_plan;
mod host;
mod links;
mod sockets;
mod start;
mod state;
mod step;
mod stop;
mod sys;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;

pub use config::QemuConfig;
pub use host::{Acceleration, Accelerator};
pub use state::QemuDriver;
pub use step::QemuStep;

use self::state::QemuState;
use super::catalogue;
use crate::driver::{
    Availability, BoxedDuplex, Driver, DriverOpenError, FoundSandbox, ImageDigest, Isolation, IsolationLevel,
    Limits, LinkError, ListError, Liveness, PrepareImageError, ReportProgress, SandboxId, SandboxSpec,
    StartError, StopError, Usage, UsageError,
};
use crate::host::cgroup::CgroupLayout;
use crate::host::console::Consoles;
use crate::host::requirements;
use crate::host::sandboxes::MarkedSandboxes;
use crate::host::sandboxes::ids::Supply;
use crate::host::storage::disk::Disks;
use crate::host::vm::machine_image;
use crate::host::vm::machine_plan;
use crate::image::ImageStore;
use crate::image::vm::VmImages;

/// Size of blank disks in stock: none is kept, since formatting one is nothing beside a boot.
const BLANK_DISK_MIB: u64 = 0;

impl QemuDriver {
    /// Opens the driver. Must be called within a tokio runtime.
    pub fn open(config: QemuConfig) -> Result<Self, DriverOpenError> {
        let remembered = MarkedSandboxes::of(&config.data)?;
        let (layout, program) = of_host(&config).map_err(|error| error.unless_in_use(remembered.in_use))?;
        let disks = Disks::open(&config.data, BLANK_DISK_MIB);
        let state = QemuState {
            sandboxes: remembered.on_host(layout, Supply::Host),
            disks: disks.map_err(DriverOpenError::prepare("open the stock of disks"))?,
            images: VmImages::new(ImageStore::new(&config.cache), config.programs),
            clock_khz: sys::clock_khz(),
            links: links::QemuLinks::default(),
            consoles: Consoles::default(),
            chosen: tokio::sync::Mutex::default(),
            runtime: match config.acceleration {
                Acceleration::Only(accelerator) => accelerator.into(),
                Acceleration::Auto => OnceLock::new(),
            },
            program,
            config: config.clone(),
        };
        Ok(Self { state: Arc::new(state), acceleration: config.acceleration })
    }

    /// Returns the console output of a machine that this process started; empty unless something went wrong inside.
    pub fn console(&self, id: &SandboxId) -> Option<String> {
        self.state.consoles.said(id)
    }
}

fn of_host(config: &QemuConfig) -> Result<(CgroupLayout, host::QemuProgram), DriverOpenError> {
    host::require_host()?;
    let program = host::QemuProgram::find(config.program.as_deref())?;
    Ok((requirements::control_groups()?, program))
}

/// Returns the most host memory of a machine and its monitor.
pub(super) fn host_memory_mib(limits: &Limits) -> u64 {
    guest_plan::host_limits(limits).memory_mib
}

#[async_trait]
impl Driver for QemuDriver {
    fn name(&self) -> &'static str {
        catalogue::QEMU.name
    }

    fn isolation(&self) -> Isolation {
        let runtime =
            self.state.runtime.get().map_or(catalogue::QEMU.name, |accelerator| accelerator.runtime());
        Isolation::without_network(IsolationLevel::Vm, runtime)
    }

    fn memory_mib(&self, limits: &Limits) -> u64 {
        host_memory_mib(limits)
    }

    fn boot_time(&self) -> Duration {
        self.state.config.boot_time
    }

    async fn availability(&self) -> Availability {
        self.tried().await
    }

    async fn prepare_image(
        &self,
        image: &ImageDigest,
        report: ReportProgress<'_>,
    ) -> Result<(), PrepareImageError> {
        let QemuState { images, config, .. } = &*self.state;
        machine_image::prepare(images, &*config.images, image, report, VmImages::of).await
    }

    async fn start(&self, spec: &SandboxSpec) -> Result<(), StartError> {
        let accelerator = self.accelerator(&spec.image).await;
        self.state.start(spec, accelerator).await
    }

    async fn next_link(&self, id: &SandboxId) -> Result<BoxedDuplex, LinkError> {
        let running = self.state.sandboxes.running(id)?;
        let folder = self.state.sandboxes.records.directory(id);
        running.link(self.state.links.next(id, &folder)).await
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

    /// Returns the count of the machine's own kernel, which separates the job from the rest. For a machine that is dead or does
    /// not answer, returns QEMU's usage.
    async fn usage(&self, id: &SandboxId) -> Result<Usage, UsageError> {
        let sandboxes = &self.state.sandboxes;
        if sandboxes.running(id).is_ok_and(|running| running.record.is_alive())
            && let Ok(usage) = control::usage(&sandboxes.records.directory(id)).await
        {
            return Ok(machine_plan::usage(&usage));
        }
        sandboxes.usage(id)
    }
}
