//! Virtual machines by QEMU: a kernel of their own behind every sandbox, on any machine that distributions are made for.
//!
//! A start (`start`) opens the image's kernel, initrd and disk, makes the workspace's disk and the machine's document
//! (`guest_plan`), and runs QEMU (`command`) confined (`sys`) in control groups of its own. From then on the machine
//! needs no server: its sockets (`sockets`) are QEMU's, and a later server finds them by the marker (`record`).
//! Keeper's link is one serial line (`links`), the driver's questions go over another (`control`). What runs the guest's
//! code is tried, not believed (`acceleration`): a host's KVM may be there and boot nothing.

mod acceleration;
mod command;
mod control;
mod guest_plan;
mod host;
mod links;
mod record;
mod sockets;
mod start;
mod stop;
mod sys;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;

pub use acceleration::Acceleration;
pub use host::Accelerator;

use self::acceleration::Chosen;
use self::record::Record;
use crate::driver::{
    Availability, BoxedDuplex, Driver, FoundSandbox, Isolation, IsolationLevel, Limits, LinkError, ListError,
    OpenError, PrepareImageError, ProbeImage, Report, SandboxId, SandboxSpec, StartError, StopError, Usage,
    UsageError,
};
use crate::image::vm::VmImages;
use crate::parts::cgroup::{Groups, Layout};
use crate::parts::console::Consoles;
use crate::parts::disk::Disks;
use crate::parts::ids::{IdPool, Supply};
use crate::parts::records::Records;
use crate::parts::{machine_image, machine_plan, yard_id};

/// The name in configuration, requests and status.
const NAME: &str = "qemu";
/// No disks are kept in stock: formatting one is nothing beside a boot.
const BLANK_DISK_MIB: u64 = 0;

/// What the driver needs to know.
#[derive(Clone)]
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
    /// An image for `availability`.
    pub probe_image: ProbeImage,
}

impl fmt::Debug for QemuConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("QemuConfig").field("data", &self.data).finish_non_exhaustive()
    }
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
    yard: String,
    program: host::Program,
    clock_khz: u64,
    layout: Layout,
    records: Records<Record>,
    ids: IdPool,
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
        let prepare = |step| move |source| OpenError::Prepare { step, source };
        std::fs::create_dir_all(&config.data).map_err(prepare("make the data directory"))?;
        let records: Records<Record> = Records::open(&config.data).map_err(prepare("open the markers"))?;
        let known = records.all().map_err(prepare("read the markers"))?;
        let (layout, program) =
            of_host(&config).map_err(|error| error.unless_in_use(known.iter().any(Record::is_alive)))?;
        let disks = Disks::open(&config.data, BLANK_DISK_MIB).map_err(prepare("open the stock of disks"))?;
        disks.tidy().map_err(prepare("tidy the stock of disks"))?;
        let yard = Yard {
            yard: yard_id::of(&config.data).map_err(prepare("read the yard's id"))?,
            ids: IdPool::with_taken(Supply::Host, known.iter().map(|record| record.id_base)),
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
            layout,
            records,
            disks,
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
    let layout = Layout::detect().map_err(|error| OpenError::Unusable {
        detail: error.to_string(),
        fix: "mount control groups version 2: mount -t cgroup2 none /sys/fs/cgroup".into(),
    })?;
    Ok((layout, program))
}

impl Yard {
    fn groups(&self, id: &SandboxId) -> Groups {
        Groups::new(&self.layout, &self.yard, id.as_str())
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        // Only what is empty goes.
        Groups::remove_yard(&self.layout, &self.yard);
    }
}

#[async_trait]
impl Driver for QemuDriver {
    fn name(&self) -> &'static str {
        NAME
    }

    fn isolation(&self) -> Isolation {
        let runtime = self.yard.runtime.get().map_or(NAME, |accelerator| accelerator.runtime());
        Isolation { level: IsolationLevel::Vm, runtime: runtime.into() }
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

    async fn prepare_image(&self, image_root: &Path, report: Report<'_>) -> Result<(), PrepareImageError> {
        machine_image::prepare(&self.yard.images, image_root, report, VmImages::of).await
    }

    async fn start(&self, spec: &SandboxSpec) -> Result<(), StartError> {
        let accelerator = self.accelerator(&spec.image_root).await;
        self.yard.start(spec, accelerator).await
    }

    async fn next_link(&self, id: &SandboxId) -> Result<BoxedDuplex, LinkError> {
        let not_running = || LinkError::NotRunning(id.clone());
        let record = self.yard.records.read(id).ok().flatten().ok_or_else(not_running)?;
        let process = record.process.ok_or_else(not_running)?;
        let folder = self.yard.records.directory(id);
        tokio::select! {
            biased;
            () = process.wait_dead() => Err(not_running()),
            link = self.yard.links.next(id, &folder) => match link {
                Ok(link) => Ok(Box::new(link)),
                Err(source) => Err(LinkError::Listen { id: id.clone(), source }),
            },
        }
    }

    async fn wait_dead(&self, id: &SandboxId) {
        if let Some(process) = self.yard.records.read(id).ok().flatten().and_then(|record| record.process) {
            process.wait_dead().await;
        }
    }

    async fn stop(&self, id: &SandboxId) -> Result<(), StopError> {
        self.yard.remove(id).await
    }

    async fn list(&self) -> Result<Vec<FoundSandbox>, ListError> {
        Ok(self.yard.list().await?)
    }

    /// Counted by the machine's own kernel, which knows the job from the rest; of a machine that is dead or does not answer, what
    /// QEMU took.
    async fn usage(&self, id: &SandboxId) -> Result<Usage, UsageError> {
        let failed = |source| UsageError { id: id.clone(), source };
        let record = self.yard.records.read(id).map_err(failed)?;
        let record = record.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        if record.is_alive()
            && let Ok(usage) = control::usage(&self.yard.records.directory(id)).await
        {
            return Ok(machine_plan::usage(&usage));
        }
        self.yard.groups(id).usage().map_err(failed)
    }
}
