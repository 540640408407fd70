//! Sandboxes made by an OCI runtime that the operator has: runc, crun, gVisor's runsc, Kata.
//!
//! A start writes the marker (`record`), prepares groups, disk and link, writes `config.json` (`bundle`), sets the stage on which
//! the runtime finds image, disk and boot document (`stage`), and calls the runtime (`runtime`): `create`, then
//! `start`. From then on the sandbox needs no server; the guest's own clock ends it. `stop` works from the marker alone.
//! What a sandbox looks like inside is every driver's (`parts/layout`).

mod availability;
mod bundle;
mod record;
mod runtime;
mod stage;
mod start;
mod stop;
mod sys;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use oci_spec::runtime::LinuxSeccomp;
use sandyard_guest::seccomp::OuterProfile;

use crate::driver::{
    Availability, BoxedDuplex, Driver, FoundSandbox, Isolation, LinkError, ListError, OpenError, ProbeImage,
    SandboxId, SandboxSpec, StartError, StopError, Usage, UsageError,
};
use crate::parts::console::Consoles;
use crate::parts::disk::Disks;
use crate::parts::ids::{IdPool, Supply};
use crate::parts::layout::KEEPER_ID;
use crate::parts::links::{Entry, Links};
use crate::parts::locks::Locks;
use crate::parts::records::Records;
use crate::parts::{cgroup, disk, programs, yard_id};
use record::Record;
use runtime::Runtime;

/// What the driver needs to know.
#[derive(Clone)]
pub struct OciConfig {
    /// The driver's own directory: markers, programs, the runtime's state.
    pub data: PathBuf,
    /// Where link directories are made; any length, need not survive a reboot.
    pub run: PathBuf,
    /// Name or path of the runtime; the first that is installed if there is none.
    pub runtime: Option<String>,
    /// Whether a runtime with known holes may be used.
    pub allow_outdated_runtime: bool,
    /// The default disk of a sandbox.
    pub disk_mib: u64,
    /// An image for `availability`.
    pub probe_image: ProbeImage,
}

impl fmt::Debug for OciConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("OciConfig").field("data", &self.data).finish_non_exhaustive()
    }
}

/// The driver. Dropping it leaves sandboxes running.
#[derive(Debug)]
pub struct OciDriver {
    yard: Arc<Yard>,
}

/// Everything the driver's parts share.
#[derive(Debug)]
struct Yard {
    config: OciConfig,
    yard: String,
    runtime: Runtime,
    layout: cgroup::Layout,
    records: Records<Record>,
    links: Links,
    disks: Disks,
    ids: IdPool,
    programs: PathBuf,
    started: Consoles,
    locks: Locks,
}

impl OciDriver {
    /// Opens the driver of a yard.
    pub fn open(config: OciConfig) -> Result<Self, OpenError> {
        let prepare = |step| move |source| OpenError::Prepare { step, source };
        let data = &config.data;
        std::fs::create_dir_all(data.join("state")).map_err(prepare("make the data directory"))?;
        let records = Records::<Record>::open(data).map_err(prepare("open the markers"))?;
        let known = records.all().map_err(prepare("read the markers"))?;
        let (runtime, layout) = availability::require_host(&config, known.iter().any(Record::is_alive))?;
        disk::remove_unfinished(&data.join(disk::STOCK)).map_err(prepare("tidy the stock of disks"))?;
        stage::prepare_host().map_err(prepare("make the place of the stage"))?;
        let yard = Yard {
            yard: yard_id::of(data).map_err(prepare("read the yard's id"))?,
            links: Links::open(&config.run, Entry::Group).map_err(prepare("make the run directory"))?,
            disks: Disks::open(data, config.disk_mib).map_err(prepare("open the stock of disks"))?,
            ids: IdPool::with_taken(Supply::Host, known.iter().filter_map(|record| record.id_base)),
            programs: programs::install(&data.join("programs")).map_err(prepare("install the guest"))?,
            started: Consoles::default(),
            locks: Locks::default(),
            runtime,
            layout,
            records,
            config,
        };
        Ok(Self { yard: Arc::new(yard) })
    }

    /// What a sandbox's guest said on its console, if this process started it.
    pub fn console(&self, id: &SandboxId) -> Option<String> {
        self.yard.started.said(id)
    }
}

impl Drop for OciDriver {
    fn drop(&mut self) {
        cgroup::Groups::remove_yard(&self.yard.layout, &self.yard.yard);
    }
}

impl Yard {
    /// Where the runtime keeps what it knows.
    fn state(&self) -> PathBuf {
        self.config.data.join("state")
    }

    /// Keeper's user, as the host numbers it.
    fn keeper_on_host(&self, id_base: Option<u32>) -> u32 {
        id_base.map_or(KEEPER_ID, |base| self.ids.keeper_on_host(base))
    }
}

/// The filter that the runtime puts around the whole container; the guest adds narrower ones inside.
fn seccomp(nested_user_namespaces: bool) -> io::Result<LinuxSeccomp> {
    let profile =
        serde_json::to_value(OuterProfile::new(nested_user_namespaces)).map_err(io::Error::other)?;
    serde_json::from_value(profile).map_err(io::Error::other)
}

#[async_trait]
impl Driver for OciDriver {
    fn name(&self) -> &'static str {
        "oci"
    }

    fn isolation(&self) -> Isolation {
        let runtime = &self.yard.runtime;
        let name = runtime.program.file_name().unwrap_or_default().to_string_lossy();
        let version = runtime.version.map_or_else(String::new, |version| format!(" {version}"));
        Isolation { level: runtime.kind.level(), runtime: format!("{name}{version}+seccomp+landlock") }
    }

    async fn availability(&self) -> Availability {
        self.try_availability().await
    }

    async fn start(&self, spec: &SandboxSpec) -> Result<(), StartError> {
        self.yard.start(spec).await
    }

    async fn next_link(&self, id: &SandboxId) -> Result<BoxedDuplex, LinkError> {
        let not_running = || LinkError::NotRunning(id.clone());
        let record = self.yard.records.read(id).ok().flatten().ok_or_else(not_running)?;
        let process = record.process.ok_or_else(not_running)?;
        tokio::select! {
            stream = self.yard.links.accept(id, self.yard.keeper_on_host(record.id_base)) => match stream {
                Ok(stream) => Ok(Box::new(stream)),
                Err(source) => Err(LinkError::Listen { id: id.clone(), source }),
            },
            () = process.wait_dead() => Err(not_running()),
        }
    }

    async fn wait_dead(&self, id: &SandboxId) {
        if let Some(process) = self.yard.process_of(id) {
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
        cgroup::Groups::new(&self.yard.layout, &self.yard.yard, &record.groups).usage().map_err(failed)
    }
}
