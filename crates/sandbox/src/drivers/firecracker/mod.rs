//! Virtual machines by Firecracker: a kernel of its own for each sandbox, no network card, and one vsock as the way out.
//!
//! A start (`start`) writes the marker (`record`), makes control groups, the workspace's disk and a jail (`jail`), starts
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
mod record;
mod start;
mod stop;
mod sys;
mod timer;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use self::jail::Jails;
use self::links::Links;
use self::programs::Programs;
use self::record::Record;
use self::timer::Timers;
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

/// No disks are kept in stock: formatting one is nothing beside a boot.
const BLANK_DISK_MIB: u64 = 0;

/// What the driver needs to know.
#[derive(Clone)]
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
    /// An image for `availability`.
    pub probe_image: ProbeImage,
}

impl fmt::Debug for FirecrackerConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("FirecrackerConfig").field("data", &self.data).finish_non_exhaustive()
    }
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
    yard: String,
    programs: Programs,
    layout: Layout,
    records: Records<Record>,
    ids: IdPool,
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
        let prepare = |step| move |source| OpenError::Prepare { step, source };
        std::fs::create_dir_all(&config.data).map_err(prepare("make the data directory"))?;
        let yard = yard_id::of(&config.data).map_err(prepare("read the yard's id"))?;
        let records = Records::open(&config.data).map_err(prepare("open the markers"))?;
        let known: Vec<Record> = records.all().map_err(prepare("read the markers"))?;
        let host = availability::Host::require(&config).map_err(|lack| lack.unless_in_use(&known))?;
        let disks = Disks::open(&config.data, BLANK_DISK_MIB).map_err(prepare("open the stock of disks"))?;
        disks.tidy().map_err(prepare("tidy the stock of disks"))?;
        let jails = Jails::open(&config.data, host.programs.name()).map_err(prepare("open the jails"))?;
        let yard = Yard {
            images: VmImages::new(&config.cache),
            config,
            yard,
            programs: host.programs,
            layout: host.layout,
            records,
            ids: IdPool::with_taken(Supply::Host, known.iter().map(|record| record.user)),
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
    fn groups(&self, record: &Record) -> Groups {
        Groups::new(&self.layout, &self.yard, &record.name)
    }

    /// What the job used by the machine's own count; of one that does not answer, what Firecracker used by the host's.
    async fn usage(&self, record: &Record) -> io::Result<Usage> {
        let socket = self.jails.jail(&record.name, &record.id).vsock(record.user);
        let hosts = self.groups(record).usage()?;
        match control::usage(&socket, plan::CONTROL_PORT).await {
            Ok(job) => Ok(machine_plan::usage(&job)),
            Err(error) => {
                tracing::debug!(sandbox = %record.id, %error, "a machine tells no usage");
                Ok(hosts)
            }
        }
    }

    /// The means of isolation, for the status.
    fn runtime(&self) -> String {
        format!("firecracker {}+jailer", self.programs.version)
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        // Only what is empty goes.
        Groups::remove_yard(&self.layout, &self.yard);
    }
}

#[async_trait]
impl Driver for FirecrackerDriver {
    fn name(&self) -> &'static str {
        "firecracker"
    }

    fn isolation(&self) -> Isolation {
        Isolation { level: IsolationLevel::Vm, runtime: self.yard.runtime() }
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

    async fn prepare_image(&self, image_root: &Path, report: Report<'_>) -> Result<(), PrepareImageError> {
        machine_image::prepare(&self.yard.images, image_root, report, VmImages::unpacked).await
    }

    async fn start(&self, spec: &SandboxSpec) -> Result<(), StartError> {
        self.yard.start(spec).await
    }

    async fn next_link(&self, id: &SandboxId) -> Result<BoxedDuplex, LinkError> {
        let not_running = || LinkError::NotRunning(id.clone());
        let record = self.yard.records.read(id).ok().flatten().ok_or_else(not_running)?;
        let process = record.process.as_ref().ok_or_else(not_running)?;
        let jail = self.yard.jails.jail(&record.name, id);
        tokio::select! {
            // A dead machine's socket may still hold a connection that nobody will ever answer on.
            biased;
            () = process.wait_dead() => Err(not_running()),
            stream = self.yard.links.accept(id, &jail, record.user) => match stream {
                Ok(stream) => Ok(Box::new(stream)),
                Err(source) => Err(LinkError::Listen { id: id.clone(), source }),
            },
        }
    }

    async fn wait_dead(&self, id: &SandboxId) {
        let record = self.yard.records.read(id).ok().flatten();
        if let Some(process) = record.and_then(|record| record.process) {
            process.wait_dead().await;
        }
    }

    async fn stop(&self, id: &SandboxId) -> Result<(), StopError> {
        self.yard.remove(id).await
    }

    async fn list(&self) -> Result<Vec<FoundSandbox>, ListError> {
        Ok(self.yard.list().await?)
    }

    async fn usage(&self, id: &SandboxId) -> Result<Usage, UsageError> {
        let failed = |source| UsageError { id: id.clone(), source };
        let record = self.yard.records.read(id).map_err(failed)?;
        let record = record.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        self.yard.usage(&record).await.map_err(failed)
    }
}
