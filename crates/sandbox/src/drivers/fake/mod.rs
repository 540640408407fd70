//! A driver in memory, with scripted faults: the real keeper on local processes, no wall at all. For the server's tests.
//!
//! The [`FakeWorld`] is what a host would be: it outlives the servers that use it, so a test can kill a server and start
//! another. It notes every breach of the driver contract that it sees: two live machines of a job, an id used twice.

mod faults;
mod link;
mod machine;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use crate::driver::{
    Availability, BoxedDuplex, Driver, FoundSandbox, Isolation, IsolationLevel, LinkError, ListError,
    SandboxId, SandboxSpec, StartError, StopError, Usage, UsageError,
};
pub use faults::Faults;
use machine::FakeMachine;

/// Everything the fake machines of one host share.
#[derive(Debug)]
pub struct FakeWorld {
    folder: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    machines: BTreeMap<SandboxId, Arc<FakeMachine>>,
    started: Vec<SandboxId>,
    breaches: Vec<String>,
    faults: Faults,
}

impl FakeWorld {
    /// A world whose machines keep their spools in this folder.
    pub fn new(folder: &Path) -> Arc<Self> {
        Arc::new(Self { folder: folder.to_owned(), state: Mutex::default() })
    }

    /// Changes what goes wrong from now on.
    pub fn script(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.state().faults);
    }

    /// Sandboxes that are alive.
    pub fn alive(&self) -> Vec<SandboxId> {
        self.state()
            .machines
            .iter()
            .filter(|(_, machine)| machine.is_alive())
            .map(|(id, _)| id.clone())
            .collect()
    }

    /// Sandboxes that have a marker, dead or alive.
    pub fn markers(&self) -> Vec<SandboxId> {
        self.state().machines.keys().cloned().collect()
    }

    /// Every sandbox that was ever started, in order.
    pub fn started(&self) -> Vec<SandboxId> {
        self.state().started.clone()
    }

    /// Breaches of the contract that were seen.
    pub fn breaches(&self) -> Vec<String> {
        self.state().breaches.clone()
    }

    /// Kills a machine: everything in it dies, its marker stays.
    pub async fn kill(&self, id: &SandboxId) {
        if let Some(machine) = self.machine(id) {
            machine.kill().await;
        }
    }

    /// Kills the keeper of a machine; another one takes its place, as init would do.
    pub async fn kill_keeper(&self, id: &SandboxId) {
        if let Some(machine) = self.machine(id) {
            machine.restart_keeper();
        }
    }

    /// Cuts the present link of a machine.
    pub fn cut_link(&self, id: &SandboxId) {
        if let Some(machine) = self.machine(id) {
            machine.links().cut();
        }
    }

    fn machine(&self, id: &SandboxId) -> Option<Arc<FakeMachine>> {
        self.state().machines.get(id).cloned()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The driver; any number of them may share a world, one for each server.
#[derive(Debug, Clone)]
pub struct FakeDriver {
    world: Arc<FakeWorld>,
}

impl FakeDriver {
    /// A driver of that world's machines.
    pub fn new(world: Arc<FakeWorld>) -> Self {
        Self { world }
    }
}

#[async_trait]
impl Driver for FakeDriver {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn isolation(&self) -> Isolation {
        Isolation { level: IsolationLevel::None, runtime: "none".into() }
    }

    async fn availability(&self) -> Availability {
        Availability::usable("in memory")
    }

    async fn start(&self, spec: &SandboxSpec) -> Result<(), StartError> {
        let delay = self.world.state().faults.start_delay;
        tokio::time::sleep(delay).await;
        let mut state = self.world.state();
        if state.machines.get(&spec.id).is_some_and(|machine| machine.is_alive()) {
            return Ok(());
        }
        if state.started.contains(&spec.id) {
            state.breaches.push(format!("sandbox {} was started twice", spec.id));
        }
        let job = job_of(&spec.id);
        if let Some(other) = state
            .machines
            .iter()
            .find(|(id, machine)| job_of(id) == job && machine.is_alive())
            .map(|(id, _)| id)
        {
            let breach = format!("sandbox {} was started while {other} lived", spec.id);
            state.breaches.push(breach);
        }
        state.faults.start()?;
        let machine = FakeMachine::start(spec, &self.world.folder, &state.faults)
            .map_err(|source| StartError::Step { step: format!("make sandbox {}", spec.id), source })?;
        state.started.push(spec.id.clone());
        state.machines.insert(spec.id.clone(), machine);
        Ok(())
    }

    async fn next_link(&self, id: &SandboxId) -> Result<BoxedDuplex, LinkError> {
        let machine = self.world.machine(id).filter(|machine| machine.is_alive());
        let machine = machine.ok_or_else(|| LinkError::NotRunning(id.clone()))?;
        Ok(Box::new(machine.links().next().await))
    }

    async fn wait_dead(&self, id: &SandboxId) {
        if let Some(machine) = self.world.machine(id) {
            machine.dead().await;
        }
    }

    async fn stop(&self, id: &SandboxId) -> Result<(), StopError> {
        if self.world.state().faults.refuses_stop() {
            let source = io::Error::other("scripted");
            return Err(StopError { id: id.clone(), step: "kill it".into(), source });
        }
        if let Some(machine) = self.world.machine(id) {
            machine.kill().await;
            machine.remove();
        }
        self.world.state().machines.remove(id);
        Ok(())
    }

    async fn list(&self) -> Result<Vec<FoundSandbox>, ListError> {
        let state = self.world.state();
        let found = |(id, machine): (&SandboxId, &Arc<FakeMachine>)| FoundSandbox {
            id: id.clone(),
            alive: machine.is_alive(),
        };
        Ok(state.machines.iter().map(found).collect())
    }

    async fn usage(&self, id: &SandboxId) -> Result<Usage, UsageError> {
        match self.world.machine(id) {
            Some(_) => Ok(self.world.state().faults.usage),
            None => Err(UsageError { id: id.clone(), source: io::ErrorKind::NotFound.into() }),
        }
    }
}

/// Sandboxes are named `<job>-<incarnation>`.
fn job_of(id: &SandboxId) -> &str {
    id.as_str().rsplit_once('-').map_or(id.as_str(), |(job, _)| job)
}
