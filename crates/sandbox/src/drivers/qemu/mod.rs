//! Virtual machines by QEMU: a kernel of their own behind every sandbox, on any machine that distributions are made for.
//!
//! A start (`start`) opens the image's kernel, initrd and disk, makes the workspace's disk and the machine's document
//! (`guest_plan`), and runs QEMU (`command`) confined (`sys`) in control groups of its own. From then on the machine
//! needs no server: its sockets (`sockets`) are QEMU's, and a later server finds them by the marker.
//! Keeper's link is one serial line (`links`), the driver's questions go over another (`control`). What runs the guest's
//! code is tried, not believed (`acceleration`): a host's KVM may be there and boot nothing.

mod acceleration;
mod command;
mod control;
mod guest_plan;
mod host;
mod links;
mod sockets;
mod start;
mod step;
mod stop;
mod sys;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;

pub use acceleration::Acceleration;
pub use host::Accelerator;
pub use step::Step;

use self::acceleration::Chosen;
use crate::driver::{
    Availability, BoxedDuplex, Driver, FoundSandbox, ImageDigest, Isolation, IsolationLevel, Limits,
    LinkError, ListError, LocalImages, OpenError, PrepareImageError, Report, SandboxId, SandboxSpec,
    StartError, StopError, Usage, UsageError,
};
use crate::image::vm::VmImages;
use crate::parts::cgroup::Layout;
use crate::parts::console::Consoles;
use crate::parts::disk::Disks;
use crate::parts::ids::Supply;
use crate::parts::sandboxes::{Remembered, Sandboxes};
use crate::parts::{machine_image, machine_plan, requirements};

/// The name in configuration, requests and status.
const NAME: &str = super::catalogue::QEMU.name;
/// No disks are kept in stock: formatting one is nothing beside a boot.
const BLANK_DISK_MIB: u64 = 0;

/// What the driver needs to know.
#[derive(Debug, Clone)]
pub struct QemuConfig {
    /// A directory of the driver's own, for markers and sockets.
    pub data: PathBuf,
    /// The cache of images, with kernels.
    pub cache: PathBuf,
    /// The program; none looks for it where programs are.
    pub program: Option<PathBuf>,
    /// What shall run the guest's code.
    pub acceleration: Acceleration,
    /// How long a machine may take to boot beyond what any sandbox may: an emulated one needs 3 s on an idle host.
    pub boot_time: Duration,
    /// Images of this host.
    pub images: Arc<dyn LocalImages>,
    /// Fails every start at this step; for tests.
    pub fail_at: Option<Step>,
}

/// The driver. Dropping it leaves machines running.
#[derive(Debug)]
pub struct QemuDriver {
    yard: Arc<Yard>,
    acceleration: Acceleration,
}

/// Everything the driver's parts share.
#[derive(Debug)]
struct Yard {
    config: QemuConfig,
    program: host::Program,
    clock_khz: u64,
    sandboxes: Sandboxes,
    disks: Disks,
    images: VmImages,
    links: links::Links,
    consoles: Consoles,
    chosen: tokio::sync::Mutex<Option<Chosen>>,
    runtime: OnceLock<Accelerator>,
}

impl QemuDriver {
    /// Opens the driver of a yard. Must be called within a tokio runtime.
    pub fn open(config: QemuConfig) -> Result<Self, OpenError> {
        let remembered = Remembered::of(&config.data)?;
        let (layout, program) = of_host(&config).map_err(|error| error.unless_in_use(remembered.in_use))?;
        let disks = Disks::open(&config.data, BLANK_DISK_MIB);
        let yard = Yard {
            sandboxes: remembered.on_host(layout, Supply::Host),
            disks: disks.map_err(OpenError::prepare("open the stock of disks"))?,
            images: VmImages::new(&config.cache),
            clock_khz: sys::clock_khz(),
            links: links::Links::default(),
            consoles: Consoles::default(),
            chosen: tokio::sync::Mutex::default(),
            runtime: match config.acceleration {
                Acceleration::Only(accelerator) => accelerator.into(),
                Acceleration::Auto => OnceLock::new(),
            },
            program,
            config: config.clone(),
        };
        Ok(Self { yard: Arc::new(yard), acceleration: config.acceleration })
    }

    /// What a machine of this server said on its console; empty unless something went wrong inside.
    pub fn console(&self, id: &SandboxId) -> Option<String> {
        self.yard.consoles.said(id)
    }
}

fn of_host(config: &QemuConfig) -> Result<(Layout, host::Program), OpenError> {
    host::require_host()?;
    let program = host::Program::find(config.program.as_deref())?;
    Ok((requirements::control_groups()?, program))
}

#[async_trait]
impl Driver for QemuDriver {
    fn name(&self) -> &'static str {
        NAME
    }

    fn isolation(&self) -> Isolation {
        let runtime = self.yard.runtime.get().map_or(NAME, |accelerator| accelerator.runtime());
        Isolation::without_network(IsolationLevel::Vm, runtime)
    }

    fn memory_mib(&self, limits: &Limits) -> u64 {
        guest_plan::host_limits(limits).memory_mib
    }

    fn boot_time(&self) -> Duration {
        self.yard.config.boot_time
    }

    async fn availability(&self) -> Availability {
        self.tried().await
    }

    async fn prepare_image(&self, image: &ImageDigest, report: Report<'_>) -> Result<(), PrepareImageError> {
        let Yard { images, config, .. } = &*self.yard;
        machine_image::prepare(images, &*config.images, image, report, VmImages::of).await
    }

    async fn start(&self, spec: &SandboxSpec) -> Result<(), StartError> {
        let accelerator = self.accelerator(&spec.image).await;
        self.yard.start(spec, accelerator).await
    }

    async fn next_link(&self, id: &SandboxId) -> Result<BoxedDuplex, LinkError> {
        let running = self.yard.sandboxes.running(id)?;
        let folder = self.yard.sandboxes.records.directory(id);
        running.link(self.yard.links.next(id, &folder)).await
    }

    async fn wait_dead(&self, id: &SandboxId) {
        self.yard.sandboxes.wait_dead(id).await;
    }

    async fn stop(&self, id: &SandboxId) -> Result<(), StopError> {
        self.yard.remove(id).await
    }

    async fn list(&self) -> Result<Vec<FoundSandbox>, ListError> {
        self.yard.sweep().await?;
        Ok(self.yard.sandboxes.found()?)
    }

    /// Counted by the machine's own kernel, which knows the job from the rest; of a machine that is dead or does not answer, what
    /// QEMU took.
    async fn usage(&self, id: &SandboxId) -> Result<Usage, UsageError> {
        let sandboxes = &self.yard.sandboxes;
        if sandboxes.running(id).is_ok_and(|running| running.record.is_alive())
            && let Ok(usage) = control::usage(&sandboxes.records.directory(id)).await
        {
            return Ok(machine_plan::usage(&usage));
        }
        sandboxes.usage(id)
    }
}
