//! Virtual machines by Firecracker: a kernel of its own for each sandbox, no network card, and one vsock as the way out.
//!
//! A start (`start`) writes the marker, makes control groups, the workspace's disk and a jail (`jail`), starts
//! Firecracker in it (`launch`) and tells it what to boot (`plan`) over its API (`api`). The
//! guest's connection arrives at a socket in the jail (`links`). From then on the machine needs no server; a later one finds it
//! by its marker. `timer` finds the kernel's part of a machine. `programs` knows versions, `availability` what is missing, `sys`
//! holds all unsafe code.
//! The host never mounts the workspace's disk: what the guest wrote there is the guest's own to read.

mod api;
mod availability;
mod control;
mod jail;
mod launch;
mod links;
mod owned_socket;
mod plan;
mod programs;
mod start;
mod stop;
mod sys;
mod timer;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use self::jail::{Jail, Jails};
use self::links::Links;
use self::programs::Programs;
use self::timer::Timers;
use super::catalogue;
use crate::driver::{
    Availability, BoxedDuplex, Driver, FoundSandbox, ImageDigest, Isolation, IsolationLevel, Limits,
    LinkError, ListError, LocalImages, OpenError, PrepareImageError, Report, SandboxId, SandboxSpec,
    StartError, StopError, Usage, UsageError,
};
use crate::image::vm::VmImages;
use crate::parts::console::Consoles;
use crate::parts::disk::Disks;
use crate::parts::ids::Supply;
use crate::parts::records::Record;
use crate::parts::sandboxes::{Remembered, Sandboxes};
use crate::parts::{machine_image, machine_plan};

/// No disks are kept in stock: formatting one is nothing beside a boot.
const BLANK_DISK_MIB: u64 = 0;

/// What the driver needs to know.
#[derive(Debug, Clone)]
pub struct FirecrackerConfig {
    /// A directory of this driver's own in the yard: markers and jails.
    pub data: PathBuf,
    /// The cache of images, with kernels.
    pub cache: PathBuf,
    /// Firecracker's program, if there is one.
    pub firecracker: Option<PathBuf>,
    /// Its jailer, of the same release.
    pub jailer: Option<PathBuf>,
    /// The device of KVM.
    pub kvm: PathBuf,
    /// How long a machine may take to boot beyond what any sandbox may: a fraction of a second where the processor does it, a
    /// minute where another machine's software does.
    pub boot_time: Duration,
    /// Images of this host.
    pub images: Arc<dyn LocalImages>,
}

/// The driver. Dropping it leaves machines running.
#[derive(Debug)]
pub struct FirecrackerDriver {
    yard: Arc<Yard>,
}

/// Everything the driver's parts share.
#[derive(Debug)]
struct Yard {
    config: FirecrackerConfig,
    programs: Programs,
    sandboxes: Sandboxes,
    disks: Disks,
    images: VmImages,
    jails: Jails,
    links: Links,
    consoles: Consoles,
    timers: Timers,
}

impl FirecrackerDriver {
    /// Opens the driver of a yard. Starts nothing.
    pub fn open(config: FirecrackerConfig) -> Result<Self, OpenError> {
        let prepare = OpenError::prepare;
        let remembered = Remembered::of(&config.data)?;
        let host =
            availability::Host::require(&config).map_err(|error| error.unless_in_use(remembered.in_use))?;
        let disks = Disks::open(&config.data, BLANK_DISK_MIB).map_err(prepare("open the stock of disks"))?;
        let jails = Jails::open(&config.data, host.programs.name()).map_err(prepare("open the jails"))?;
        let yard = Yard {
            images: VmImages::new(&config.cache),
            config,
            programs: host.programs,
            sandboxes: remembered.on_host(host.layout, Supply::Host),
            disks,
            jails,
            links: Links::new(plan::LINK_PORT),
            consoles: Consoles::default(),
            timers: Timers::default(),
        };
        Ok(Self { yard: Arc::new(yard) })
    }

    /// What was said on a machine's console, by Firecracker, the kernel and the guest, if this process started it.
    pub fn console(&self, id: &SandboxId) -> Option<String> {
        self.yard.consoles.said(id)
    }
}

impl Yard {
    /// The jail of a machine, which has the name of its control groups.
    fn jail(&self, record: &Record) -> Jail {
        self.jails.jail(record.groups_name(), &record.id)
    }

    /// The means of isolation, for the status.
    fn runtime(&self) -> String {
        format!("firecracker {}+jailer", self.programs.version)
    }
}

#[async_trait]
impl Driver for FirecrackerDriver {
    fn name(&self) -> &'static str {
        catalogue::FIRECRACKER.name
    }

    fn isolation(&self) -> Isolation {
        Isolation::without_network(IsolationLevel::Vm, self.yard.runtime())
    }

    fn memory_mib(&self, limits: &Limits) -> u64 {
        plan::host_limits(limits).memory_mib
    }

    async fn availability(&self) -> Availability {
        self.yard.availability(self).await
    }

    fn boot_time(&self) -> Duration {
        self.yard.config.boot_time
    }

    async fn prepare_image(&self, image: &ImageDigest, report: Report<'_>) -> Result<(), PrepareImageError> {
        let Yard { images, config, .. } = &*self.yard;
        machine_image::prepare(images, &*config.images, image, report, VmImages::unpacked).await
    }

    async fn start(&self, spec: &SandboxSpec) -> Result<(), StartError> {
        self.yard.start(spec).await
    }

    async fn next_link(&self, id: &SandboxId) -> Result<BoxedDuplex, LinkError> {
        let running = self.yard.sandboxes.running(id)?;
        let jail = self.yard.jail(&running.record);
        running.link(self.yard.links.accept(id, &jail, running.record.machine_user())).await
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

    /// Counted by the machine's own kernel, which knows the job from the rest; of a machine that does not answer, what Firecracker
    /// took.
    async fn usage(&self, id: &SandboxId) -> Result<Usage, UsageError> {
        let hosts = self.yard.sandboxes.usage(id)?;
        let Ok(running) = self.yard.sandboxes.running(id) else { return Ok(hosts) };
        let socket = self.yard.jail(&running.record).vsock(running.record.machine_user());
        match control::usage(&socket, plan::CONTROL_PORT).await {
            Ok(job) => Ok(machine_plan::usage(&job)),
            Err(error) => {
                tracing::debug!(sandbox = %id, %error, "a machine tells no usage");
                Ok(hosts)
            }
        }
    }
}
