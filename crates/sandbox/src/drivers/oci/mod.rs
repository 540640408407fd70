//! Sandboxes made by an OCI runtime that the operator has: runc, crun, gVisor's runsc, Kata.
//!
//! A start writes the marker, prepares groups, disk and link, writes `config.json` (`bundle`), sets the stage on which
//! the runtime finds image, disk and boot document (`stage`), and calls the runtime (`runtime`): `create`, then
//! `start`. From then on the sandbox needs no server; the guest's own clock ends it. `stop` works from the marker alone.
//! What a sandbox looks like inside is every driver's (`parts/layout`), and so is how it is judged and counted (`parts/sandboxes`).

mod availability;
mod bundle;
mod runtime;
mod stage;
mod start;
mod step;
mod stop;
mod sys;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use oci_spec::runtime::LinuxSeccomp;
use sandyard_sys::seccomp::OuterProfile;

pub use step::Step;

use super::catalogue;
use crate::driver::{
    Availability, BindError, BindSupport, Binding, BindingPart, BoxedDuplex, Driver, FoundSandbox, Isolation,
    LinkError, ListError, LocalImages, OpenError, SandboxId, SandboxSpec, StartError, StopError, Usage,
    UsageError,
};
use crate::parts::console::Consoles;
use crate::parts::disk::Disks;
use crate::parts::ids::Supply;
use crate::parts::links::{Entry, Links};
use crate::parts::locks::Locks;
use crate::parts::programs;
use crate::parts::sandboxes::{Remembered, Sandboxes};
use runtime::Runtime;

/// What the driver needs to know.
#[derive(Debug, Clone)]
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
    /// Images of this host.
    pub images: Arc<dyn LocalImages>,
    /// Fails every start at this step; for tests.
    pub fail_at: Option<Step>,
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
    runtime: Runtime,
    sandboxes: Sandboxes,
    links: Links,
    disks: Disks,
    programs: PathBuf,
    started: Consoles,
    locks: Locks,
}

impl OciDriver {
    /// Opens the driver of a yard.
    pub fn open(config: OciConfig) -> Result<Self, OpenError> {
        let prepare = OpenError::prepare;
        let data = &config.data;
        let remembered = Remembered::of(data)?;
        let (runtime, layout) = availability::require_host(&config, remembered.in_use)
            .map_err(|error| error.unless_in_use(remembered.in_use))?;
        std::fs::create_dir_all(data.join("state")).map_err(prepare("make the runtime's directory"))?;
        stage::prepare_host().map_err(prepare("make the place of the stage"))?;
        let yard = Yard {
            links: Links::open(&config.run, Entry::Group).map_err(prepare("make the run directory"))?,
            disks: Disks::open(data, config.disk_mib).map_err(prepare("open the stock of disks"))?,
            programs: programs::install(&data.join("programs")).map_err(prepare("install the guest"))?,
            sandboxes: remembered.on_host(layout, Supply::Host),
            started: Consoles::default(),
            locks: Locks::default(),
            runtime,
            config,
        };
        Ok(Self { yard: Arc::new(yard) })
    }

    /// What a sandbox's guest said on its console, if this process started it.
    pub fn console(&self, id: &SandboxId) -> Option<String> {
        self.yard.started.said(id)
    }
}

impl Yard {
    /// Where the runtime keeps what it knows.
    fn state(&self) -> PathBuf {
        self.config.data.join("state")
    }
}

/// The filter that the runtime puts around the whole container; the guest adds narrower ones inside.
fn seccomp() -> io::Result<LinuxSeccomp> {
    let profile = serde_json::to_value(OuterProfile::from_table()).map_err(io::Error::other)?;
    serde_json::from_value(profile).map_err(io::Error::other)
}

#[async_trait]
impl Driver for OciDriver {
    fn name(&self) -> &'static str {
        catalogue::OCI.name
    }

    fn isolation(&self) -> Isolation {
        let runtime = &self.yard.runtime;
        let name = runtime.program.file_name().unwrap_or_default().to_string_lossy();
        let version = runtime.version.map_or_else(String::new, |version| format!(" {version}"));
        Isolation::without_network(runtime.kind.level(), format!("{name}{version}+seccomp+landlock"))
    }

    async fn availability(&self) -> Availability {
        self.try_availability().await
    }

    async fn start(&self, spec: &SandboxSpec) -> Result<(), StartError> {
        self.yard.start(spec).await
    }

    fn binds(&self) -> BindSupport {
        BindSupport { limits: self.yard.runtime.kind.shares_host_limits(), workspace: false }
    }

    async fn bind(&self, id: &SandboxId, binding: &Binding) -> Result<(), BindError> {
        if !self.yard.runtime.kind.shares_host_limits() {
            return Err(BindError::Unsupported { driver: self.name(), part: BindingPart::Limits });
        }
        self.yard.sandboxes.bind_limits(self.name(), id, binding)
    }

    async fn next_link(&self, id: &SandboxId) -> Result<BoxedDuplex, LinkError> {
        self.yard.sandboxes.next_link(id, &self.yard.links).await
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

    async fn usage(&self, id: &SandboxId) -> Result<Usage, UsageError> {
        self.yard.sandboxes.usage(id)
    }
}
