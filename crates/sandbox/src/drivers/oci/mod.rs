//! Sandboxes made by an OCI runtime that the operator has: runc, crun, gVisor's runsc, Kata.
//!
//! A start writes the marker, prepares groups, disk and link, writes `config.json` (`bundle`), sets the stage on which the
//! runtime finds image, disk and boot document (`stage`), and calls the runtime (`runtime`): `create`, then `start`. From then
//! on the sandbox needs no server; the guest's own clock ends it. `stop` works from the marker alone. The view from inside
//! (`host/layout`) and the judging and counting of sandboxes (`host/sandboxes`) are shared by all drivers.

mod availability;
mod bundle;
mod config;
mod runtime;
mod stage;
mod start;
mod state;
mod step;
mod stop;
mod sys;

use std::sync::Arc;

use async_trait::async_trait;

pub use config::OciConfig;
pub use state::OciDriver;
pub use step::OciStep;

use self::state::OciState;
use super::catalogue;
use crate::driver::{
    Availability, BindError, BindSupport, Binding, BindingPart, BoxedDuplex, DiskState, Driver,
    DriverOpenError, FoundSandbox, Isolation, LinkError, ListError, Liveness, SandboxId, SandboxSpec,
    StartError, StopError, Usage, UsageError,
};
use crate::host::console::Consoles;
use crate::host::sandboxes::MarkedSandboxes;
use crate::host::sandboxes::ids::Supply;
use crate::host::sandboxes::links::{KeeperEntry, SocketLinks};
use crate::host::sandboxes::locks::SandboxLocks;
use crate::host::storage::disk::Disks;

impl OciDriver {
    /// Opens the driver and reads its markers. Starts nothing.
    pub fn open(config: OciConfig) -> Result<Self, DriverOpenError> {
        let prepare = DriverOpenError::prepare;
        let data = &config.data;
        let remembered = MarkedSandboxes::of(data)?;
        let (runtime, layout) = availability::require_host(&config, remembered.in_use)
            .map_err(|error| error.unless_in_use(remembered.in_use))?;
        std::fs::create_dir_all(data.join("state")).map_err(prepare("make the runtime's directory"))?;
        stage::prepare_host().map_err(prepare("make the place of the stage"))?;
        let state = OciState {
            links: SocketLinks::open(&config.run, KeeperEntry::Group)
                .map_err(prepare("make the run directory"))?,
            disks: Disks::open(data, config.disk_mib).map_err(prepare("open the stock of disks"))?,
            programs: config
                .programs
                .install(&data.join("programs"))
                .map_err(prepare("install the guest"))?,
            sandboxes: remembered.on_host(layout, Supply::Host),
            nodes: stage::node_maker(runtime.kind),
            started: Consoles::default(),
            locks: SandboxLocks::default(),
            runtime,
            config,
        };
        Ok(Self { state: Arc::new(state) })
    }

    /// Returns a sandbox's console output, if this process started it.
    pub fn console(&self, id: &SandboxId) -> Option<String> {
        self.state.started.said(id)
    }
}

#[async_trait]
impl Driver for OciDriver {
    fn name(&self) -> &'static str {
        catalogue::OCI.name
    }

    fn isolation(&self) -> Isolation {
        let runtime = &self.state.runtime;
        let name = runtime.program.file_name().unwrap_or_default().to_string_lossy();
        let version = runtime.version.as_ref().map_or_else(String::new, |version| format!(" {version}"));
        Isolation::without_network(runtime.kind.level(), format!("{name}{version}+seccomp+landlock"))
    }

    async fn availability(&self) -> Availability {
        self.try_availability().await
    }

    async fn start(&self, spec: &SandboxSpec) -> Result<(), StartError> {
        self.state.start(spec).await
    }

    fn binds(&self) -> BindSupport {
        BindSupport { limits: self.state.runtime.kind.shares_host_limits(), workspace: false }
    }

    async fn bind(&self, id: &SandboxId, binding: &Binding) -> Result<(), BindError> {
        if !self.state.runtime.kind.shares_host_limits() {
            return Err(BindError::Unsupported { driver: self.name(), part: BindingPart::Limits });
        }
        self.state.sandboxes.bind_limits(self.name(), id, binding)
    }

    async fn next_link(&self, id: &SandboxId) -> Result<BoxedDuplex, LinkError> {
        self.state.sandboxes.next_link(id, &self.state.links).await
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

    async fn disk_state(&self, id: &SandboxId) -> DiskState {
        self.state.sandboxes.disk_state(id)
    }

    async fn usage(&self, id: &SandboxId) -> Result<Usage, UsageError> {
        self.state.sandboxes.usage(id)
    }
}
