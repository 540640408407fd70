//! The embedded default driver: sandboxes from kernel interfaces alone, made by our own launcher.
//!
//! A start takes a parked slot (`slots`), a disk (`workspaces`) and a link directory, writes the marker and
//! has the slot's helper build the machine (`launcher`), which becomes the guest's `init`. From then on the
//! sandbox needs neither launcher nor server; a later server finds it by its marker.
//! `standing` is whether root makes them or an ordinary user does (`rootless`): the same machine by the same code, from other parts.
//! What every driver uses is in `parts`: `layout` says what a sandbox looks like inside, `sandboxes` finds, judges and counts them.

mod availability;
mod boot_file;
mod launcher;
mod rootless;
mod slots;
mod standing;
mod start;
mod started;
mod stop;
mod sys;
mod workspaces;

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

pub use launcher::step::Step;
pub use launcher::{LAUNCHER_COMMAND, launcher_main};
pub use slots::LauncherProgram;

use super::catalogue;
use crate::driver::{
    Availability, BindError, BindSupport, Binding, BindingPart, BoxedDuplex, Driver, FoundSandbox, Isolation,
    IsolationLevel, Limits, LinkError, ListError, LocalImages, OpenError, SandboxId, SandboxSpec, StartError,
    StopError, Usage, UsageError,
};
use crate::parts::links::Links;
use crate::parts::programs;
use crate::parts::sandboxes::{Remembered, Sandboxes};

/// A start is followed by this much quiet before slots and disks are made, so that making them does not slow it down.
const RESTOCK_AFTER: Duration = Duration::from_millis(60);

/// What the driver needs to know.
#[derive(Debug, Clone)]
pub struct NativeConfig {
    /// The yard's data directory: markers and blank disks. The same file system as the workspaces makes starts quick.
    pub data: PathBuf,
    /// Where link directories are made; any length, need not survive a reboot.
    pub run: PathBuf,
    /// How to run the launcher.
    pub launcher: LauncherProgram,
    /// Slots kept waiting.
    pub parked_slots: usize,
    /// Blank disks kept in stock.
    pub blank_disks: usize,
    /// Their size: the default disk of a sandbox.
    pub blank_disk_mib: u64,
    /// Images of this host.
    pub images: Arc<dyn LocalImages>,
    /// Fails every start at this step; for tests.
    pub fail_at: Option<Step>,
}

/// The driver. Dropping it ends the launcher and parked slots and leaves sandboxes running.
#[derive(Debug)]
pub struct NativeDriver {
    yard: Arc<Yard>,
    restocking: AbortHandle,
}

/// Everything the driver's parts share.
#[derive(Debug)]
struct Yard {
    config: NativeConfig,
    program: OwnedFd,
    agent: OwnedFd,
    sandboxes: Sandboxes,
    standing: standing::Standing,
    workspaces: workspaces::Workspaces,
    links: Links,
    slots: slots::Slots,
    started: started::Started,
    wanting: Notify,
}

impl NativeDriver {
    /// Opens the driver of a yard. Must be called within a tokio runtime, on which it keeps its stock.
    pub fn open(config: NativeConfig) -> Result<Self, OpenError> {
        let prepare = OpenError::prepare;
        let remembered = Remembered::of(&config.data)?;
        let parts = standing::Parts::of_host(&config, &remembered.yard)
            .map_err(|error| error.unless_in_use(remembered.in_use))?;
        let slots = slots::Slots::new(
            parts.layout.clone(),
            remembered.yard.clone(),
            config.launcher.clone(),
            parts.standing.namespace(),
            config.fail_at,
        );
        let yard = Arc::new(Yard {
            program: programs::guest_in_memory().map_err(prepare("load the guest"))?,
            agent: programs::agent_in_memory().map_err(prepare("load the agent"))?,
            links: Links::open(&config.run, parts.entry).map_err(prepare("make the run directory"))?,
            slots,
            sandboxes: remembered.on_host(parts.layout, parts.supply),
            started: started::Started::default(),
            wanting: Notify::new(),
            standing: parts.standing,
            workspaces: parts.workspaces,
            config,
        });
        yard.wanting.notify_one();
        let restocking = tokio::spawn(restock(yard.clone())).abort_handle();
        Ok(Self { yard, restocking })
    }

    /// What a live sandbox's guest said on its console; empty unless something went wrong inside.
    pub fn console(&self, id: &SandboxId) -> Option<String> {
        self.yard.started.console(id)
    }

    /// What each step of a sandbox's start took, in microseconds; empty unless this process started it.
    pub fn phases(&self, id: &SandboxId) -> Vec<(Step, u64)> {
        self.yard.started.phases(id)
    }
}

impl Drop for NativeDriver {
    fn drop(&mut self) {
        self.restocking.abort();
        // It may be in the middle of making a slot on another thread; on this one it can't be.
        for _ in 0..slots::CLOSE_LOOKS {
            if self.restocking.is_finished() {
                break;
            }
            slots::pause();
        }
        // Without its markers nobody knows which groups are sandboxes', so then none are removed.
        if let Ok(records) = self.yard.sandboxes.records.all() {
            let in_use = !records.is_empty();
            self.yard.slots.close(&records.iter().map(|record| record.groups_name().to_owned()).collect());
            if let (false, Some(namespace)) = (in_use, self.yard.standing.namespace()) {
                namespace.release();
            }
        }
    }
}

/// Keeps slots and disks in stock, each time a while after the last start.
async fn restock(yard: Arc<Yard>) {
    loop {
        yard.wanting.notified().await;
        while tokio::time::timeout(RESTOCK_AFTER, yard.wanting.notified()).await.is_ok() {}
        if let Err(error) = restock_once(&yard).await {
            tracing::warn!(%error, "can't prepare for the next starts; they will take longer");
        }
    }
}

async fn restock_once(yard: &Yard) -> io::Result<()> {
    while yard.slots.parked() < yard.config.parked_slots {
        let workspaces = yard.workspaces.clone();
        let set_aside = tokio::task::spawn_blocking(move || workspaces.set_aside());
        let disk = set_aside.await.map_err(io::Error::other)??;
        yard.slots.park(disk).await.map_err(io::Error::other)?;
    }
    let (workspaces, wanted) = (yard.workspaces.clone(), yard.config.blank_disks);
    tokio::task::spawn_blocking(move || workspaces.restock(wanted)).await.map_err(io::Error::other)?
}

#[async_trait]
impl Driver for NativeDriver {
    fn name(&self) -> &'static str {
        catalogue::NATIVE.name
    }

    fn isolation(&self) -> Isolation {
        Isolation::without_network(IsolationLevel::Container, self.yard.standing.runtime())
    }

    fn memory_mib(&self, limits: &Limits) -> u64 {
        limits.memory_mib.saturating_add(self.yard.workspaces.in_memory_mib(limits))
    }

    async fn availability(&self) -> Availability {
        self.yard.availability(self).await
    }

    async fn start(&self, spec: &SandboxSpec) -> Result<(), StartError> {
        self.yard.start(spec).await
    }

    fn binds(&self) -> BindSupport {
        BindSupport { limits: self.yard.workspaces.are_on_disk(), workspace: false }
    }

    async fn bind(&self, id: &SandboxId, binding: &Binding) -> Result<(), BindError> {
        if !self.yard.workspaces.are_on_disk() {
            // A disk in memory counts as the job's, and its size is not in the marker.
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
