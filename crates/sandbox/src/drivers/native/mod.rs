//! The embedded default driver: sandboxes from kernel interfaces alone, made by our own launcher.
//!
//! A start takes a parked slot (`slots`), a disk (`workspaces`) and a link directory, writes the marker and
//! has the slot's helper build the machine (`launcher`), which becomes the guest's `init`. From then on the
//! sandbox needs neither launcher nor server; a later server finds it by its marker.
//! `privileges` decides between root and an ordinary user (`rootless`): the same machine by the same code, with other ids, disks and
//! control groups. The tools that drivers share are in `host`: `layout` is the view from inside, `sandboxes` finds, judges and
//! counts sandboxes.

mod availability;
mod boot_file;
mod config;
mod launcher;
mod launcher_program;
mod privileges;
mod rootless;
mod slots;
mod start;
mod started;
mod state;
mod stop;
mod sys;
mod workspaces;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;

pub use config::NativeConfig;
pub use launcher::step::NativeStep;
pub use launcher::{LAUNCHER_COMMAND, launcher_main};
pub use launcher_program::LauncherProgram;
pub use state::NativeDriver;

use self::state::NativeState;
use super::catalogue;
use crate::driver::{
    Availability, BindError, BindSupport, Binding, BindingPart, BoxedDuplex, DiskState, Driver,
    DriverOpenError, FoundSandbox, Isolation, IsolationLevel, Limits, LinkError, ListError, Liveness,
    SandboxId, SandboxSpec, StartError, StopError, Usage, UsageError,
};
use crate::host::sandboxes::MarkedSandboxes;
use crate::host::sandboxes::links::SocketLinks;

/// Quiet time after a start before slots and disks are made, so that this work does not slow the start down.
const RESTOCK_DELAY: Duration = Duration::from_millis(60);

impl NativeDriver {
    /// Opens the driver of a state. Must be called within a tokio runtime, on which it keeps its stock.
    pub fn open(config: NativeConfig) -> Result<Self, DriverOpenError> {
        let prepare = DriverOpenError::prepare;
        let remembered = MarkedSandboxes::of(&config.data)?;
        let setup = privileges::NativeSetup::of_host(&config, &remembered.yard)
            .map_err(|error| error.unless_in_use(remembered.in_use))?;
        let slots = slots::LaunchSlots::new(
            setup.layout.clone(),
            remembered.yard.clone(),
            config.launcher.clone(),
            setup.privileges.namespace(),
            config.fail_at,
        );
        let state = Arc::new(NativeState {
            programs: config
                .programs
                .install(&config.data.join("programs"))
                .map_err(prepare("install the guest"))?,
            links: SocketLinks::open(&config.run, setup.entry).map_err(prepare("make the run directory"))?,
            slots,
            sandboxes: remembered.on_host(setup.layout, setup.supply),
            started: started::StartedSandboxes::default(),
            wanting: Notify::new(),
            privileges: setup.privileges,
            workspaces: setup.workspaces,
            config,
        });
        // The first fill of the stock needs no start before it.
        state.wanting.notify_one();
        let restocking = tokio::spawn(restock(state.clone())).abort_handle();
        Ok(Self { state, restocking })
    }

    /// Returns the console output of a live sandbox; empty unless something went wrong inside.
    pub fn console(&self, id: &SandboxId) -> Option<String> {
        self.state.started.console(id)
    }

    /// Returns the duration of each step of a sandbox's start in microseconds; empty unless this process started it.
    pub fn phases(&self, id: &SandboxId) -> Vec<(NativeStep, u64)> {
        self.state.started.phases(id)
    }
}

impl Drop for NativeDriver {
    fn drop(&mut self) {
        self.restocking.abort();
        // The task may be making a slot on another thread. Its groups must not appear after the removal
        // below.
        for _ in 0..slots::CLOSE_ATTEMPTS {
            if self.restocking.is_finished() {
                break;
            }
            slots::pause();
        }
        // Without the markers, groups of sandboxes can't be told from those of slots, so none are removed.
        if let Ok(records) = self.state.sandboxes.records.all() {
            let in_use = !records.is_empty();
            self.state.slots.close(&records.iter().map(|record| record.groups_name().to_owned()).collect());
            if let (false, Some(namespace)) = (in_use, self.state.privileges.namespace()) {
                namespace.release();
            }
        }
    }
}

/// Keeps slots and disks in stock. Each start postpones the work by [`RESTOCK_DELAY`].
async fn restock(state: Arc<NativeState>) {
    loop {
        state.wanting.notified().await;
        while tokio::time::timeout(RESTOCK_DELAY, state.wanting.notified()).await.is_ok() {}
        if let Err(error) = restock_once(&state).await {
            tracing::warn!(%error, "can't prepare for the next starts; they will take longer");
        }
    }
}

async fn restock_once(state: &NativeState) -> io::Result<()> {
    while state.slots.parked() < state.config.parked_slots {
        let workspaces = state.workspaces.clone();
        let set_aside = tokio::task::spawn_blocking(move || workspaces.set_aside());
        let disk = set_aside.await.map_err(io::Error::other)??;
        state.slots.park(disk).await.map_err(io::Error::other)?;
    }
    let (workspaces, wanted) = (state.workspaces.clone(), state.config.blank_disks);
    tokio::task::spawn_blocking(move || workspaces.restock(wanted)).await.map_err(io::Error::other)?
}

#[async_trait]
impl Driver for NativeDriver {
    fn name(&self) -> &'static str {
        catalogue::NATIVE.name
    }

    fn isolation(&self) -> Isolation {
        Isolation::without_network(IsolationLevel::Container, self.state.privileges.runtime())
    }

    fn memory_mib(&self, limits: &Limits) -> u64 {
        limits.memory_mib.saturating_add(self.state.workspaces.in_memory_mib(limits))
    }

    fn disk_mib(&self, limits: &Limits) -> u64 {
        limits.disk_mib.saturating_sub(self.state.workspaces.in_memory_mib(limits))
    }

    async fn availability(&self) -> Availability {
        self.state.availability(self).await
    }

    async fn start(&self, spec: &SandboxSpec) -> Result<(), StartError> {
        self.state.start(spec).await
    }

    fn binds(&self) -> BindSupport {
        BindSupport { limits: self.state.workspaces.are_on_disk(), workspace: false }
    }

    async fn bind(&self, id: &SandboxId, binding: &Binding) -> Result<(), BindError> {
        if !self.state.workspaces.are_on_disk() {
            // A disk in memory counts as the job's, and its size is not in the marker.
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
