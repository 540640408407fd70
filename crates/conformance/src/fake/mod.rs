//! A driver in memory with scripted faults, for the server's tests: the real keeper on local processes,
//! without any isolation.
//!
//! The [`FakeWorld`] stands for a host. It outlives the servers that use it, so a test can kill a server and
//! start another. It records every breach of the driver contract that it sees: two live machines of a job, or
//! an id used twice.

mod door;
mod faults;
mod link;
mod machine;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};

use door::FakeDoor;
pub use faults::Faults;
use link::FakeLinks;
use machine::FakeMachine;
use sandyard_sandbox::driver::{
    Availability, BindError, BindSupport, Binding, BindingPart, BoxedDuplex, Driver, FoundSandbox,
    InboundLinks, Isolation, IsolationLevel, Limits, LinkError, ListError, Liveness, NetworkIsolation,
    SandboxId, SandboxSpec, StartError, StopError, Usage, UsageError,
};

/// Delay between two attempts to reach the host of the machines.
const REACH_DELAY: Duration = Duration::from_millis(20);

/// State that the fake machines of one host share.
#[derive(Debug)]
pub struct FakeWorld {
    folder: PathBuf,
    state: Mutex<WorldState>,
    door: Arc<FakeDoor>,
}

#[derive(Debug, Default)]
struct WorldState {
    machines: BTreeMap<SandboxId, Arc<FakeMachine>>,
    started: Vec<SandboxId>,
    /// Workspaces of all sandboxes that were ever started.
    workspaces: BTreeMap<SandboxId, PathBuf>,
    bound: BTreeMap<SandboxId, Limits>,
    breaches: Vec<String>,
    faults: Faults,
}

impl FakeWorld {
    /// Creates a world whose machines keep their spools in this folder.
    pub fn new(folder: &Path) -> Arc<Self> {
        Arc::new(Self { folder: folder.to_owned(), state: Mutex::default(), door: Arc::default() })
    }

    /// Changes the script of faults.
    pub fn script(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.state().faults);
    }

    /// Returns the sandboxes that are alive.
    pub fn alive(&self) -> Vec<SandboxId> {
        self.state()
            .machines
            .iter()
            .filter(|(_, machine)| machine.is_alive())
            .map(|(id, _)| id.clone())
            .collect()
    }

    /// Returns the sandboxes that have a marker, dead or alive.
    pub fn markers(&self) -> Vec<SandboxId> {
        self.state().machines.keys().cloned().collect()
    }

    /// Returns every sandbox that was ever started, in order.
    pub fn started(&self) -> Vec<SandboxId> {
        self.state().started.clone()
    }

    /// Returns every sandbox that was ever started on a workspace in a folder, in order.
    pub fn started_in(&self, folder: &Path) -> Vec<SandboxId> {
        let state = self.state();
        let is_in = |id: &&SandboxId| state.workspaces.get(id).is_some_and(|path| path.starts_with(folder));
        state.started.iter().filter(is_in).cloned().collect()
    }

    /// Returns the breaches of the contract that the world has seen.
    pub fn breaches(&self) -> Vec<String> {
        self.state().breaches.clone()
    }

    /// Returns the limits that were bound to a sandbox after its start.
    pub fn bound_limits(&self, id: &SandboxId) -> Option<Limits> {
        self.state().bound.get(id).copied()
    }

    /// Kills a machine: everything in it dies. Its marker stays.
    pub async fn kill(&self, id: &SandboxId) {
        if let Some(machine) = self.machine(id) {
            machine.kill().await;
        }
    }

    /// Kills the keeper of a machine. Another one takes its place, as init would do.
    pub async fn kill_keeper(&self, id: &SandboxId) {
        if let Some(machine) = self.machine(id) {
            machine.restart_keeper();
        }
    }

    /// Cuts the current link of a machine.
    pub fn cut_link(&self, id: &SandboxId) {
        if let Some(machine) = self.machine(id) {
            machine.links().cut();
        }
    }

    /// Returns when a machine is dead and its host can be reached, so that the death can be known.
    async fn known_dead(&self, machine: &FakeMachine) {
        machine.dead().await;
        while self.state().faults.unreachable {
            tokio::time::sleep(REACH_DELAY).await;
        }
    }

    fn machine(&self, id: &SandboxId) -> Option<Arc<FakeMachine>> {
        self.state().machines.get(id).cloned()
    }

    fn state(&self) -> MutexGuard<'_, WorldState> {
        self.state.lock()
    }
}

/// The driver. Any number of drivers may share a world, one for each server.
#[derive(Debug, Clone)]
pub struct FakeDriver {
    world: Arc<FakeWorld>,
    place: FakePlace,
}

/// Place where the machines pretend to be.
#[derive(Debug, Clone)]
enum FakePlace {
    /// On the server's host: links come by a rendezvous in memory.
    Local,
    /// On another host: links arrive at this door of the server.
    Remote(InboundLinks),
}

impl FakeDriver {
    /// Creates a driver of that world's machines.
    pub fn new(world: Arc<FakeWorld>) -> Self {
        Self { world, place: FakePlace::Local }
    }

    /// Creates a driver whose machines behave as on another host: they dial the door of the server that
    /// opened a driver last. The driver adopts the machines that the world already has.
    pub fn remote(world: Arc<FakeWorld>, door: InboundLinks) -> Self {
        world.state().machines.keys().for_each(|id| door.expect(id));
        world.door.set(door.clone());
        Self { world, place: FakePlace::Remote(door) }
    }
}

#[async_trait]
impl Driver for FakeDriver {
    fn name(&self) -> &'static str {
        sandyard_protocol::drivers::FAKE
    }

    fn isolation(&self) -> Isolation {
        let network = match self.place {
            FakePlace::Local => NetworkIsolation::None,
            FakePlace::Remote(_) => NetworkIsolation::Policy,
        };
        Isolation { network, ..Isolation::without_network(IsolationLevel::None, "none") }
    }

    fn boot_time(&self) -> Duration {
        self.world.state().faults.boot_time
    }

    async fn availability(&self) -> Availability {
        Availability::usable("in memory")
    }

    async fn start(&self, spec: &SandboxSpec) -> Result<(), StartError> {
        let delay = self.world.state().faults.start_delay;
        tokio::time::sleep(delay).await;
        let mut state = self.world.state();
        if !state.faults.unreachable && state.machines.get(&spec.id).is_some_and(|machine| machine.is_alive())
        {
            return Ok(());
        }
        if state.started.contains(&spec.id) {
            state.breaches.push(format!("sandbox {} was started twice", spec.id));
        }
        // A workspace belongs to one job, so two live machines on it break the promise that a job runs once.
        let shares = |id: &SandboxId| state.workspaces.get(id) == Some(&spec.workspace);
        if let Some(other) =
            state.machines.iter().find(|(id, machine)| shares(id) && machine.is_alive()).map(|(id, _)| id)
        {
            let breach = format!("sandbox {} was started while {other} lived", spec.id);
            state.breaches.push(breach);
        }
        state.faults.start()?;
        let links = match &self.place {
            FakePlace::Local => FakeLinks::local(state.faults.link_bytes),
            FakePlace::Remote(door) => {
                door.expect(&spec.id);
                FakeLinks::remote(&spec.id, &self.world.door)
            }
        };
        let machine = FakeMachine::start(spec, &self.world.folder, &state.faults, links)
            .map_err(|source| StartError::Step { step: format!("make sandbox {}", spec.id), source })?;
        state.started.push(spec.id.clone());
        state.workspaces.insert(spec.id.clone(), spec.workspace.clone());
        state.machines.insert(spec.id.clone(), machine);
        Ok(())
    }

    fn binds(&self) -> BindSupport {
        BindSupport { limits: true, workspace: false }
    }

    async fn bind(&self, id: &SandboxId, binding: &Binding) -> Result<(), BindError> {
        if binding.workspace.is_some() {
            return Err(BindError::Unsupported { driver: self.name(), part: BindingPart::Workspace });
        }
        let alive = self.world.machine(id).is_some_and(|machine| machine.is_alive());
        if !alive {
            return Err(BindError::NotRunning(id.clone()));
        }
        let mut state = self.world.state();
        let step = "reach the host".to_owned();
        state.faults.reach().map_err(|source| BindError::Step { id: id.clone(), step, source })?;
        state.bound.insert(id.clone(), binding.limits);
        Ok(())
    }

    async fn next_link(&self, id: &SandboxId) -> Result<BoxedDuplex, LinkError> {
        let not_running = || LinkError::NotRunning(id.clone());
        let machine = self.world.machine(id).ok_or_else(not_running)?;
        match &self.place {
            FakePlace::Local if !machine.is_alive() => Err(not_running()),
            FakePlace::Local => Ok(Box::new(machine.links().next().await)),
            FakePlace::Remote(door) => tokio::select! {
                // Death is checked first: a link delivered before the machine died is useless. Dropping
                // `door.next` loses no stream, and dropping `known_dead` only ends a watch.
                biased;
                () = self.world.known_dead(&machine) => Err(not_running()),
                link = door.next(id) => link,
            },
        }
    }

    async fn wait_dead(&self, id: &SandboxId) {
        if let Some(machine) = self.world.machine(id) {
            self.world.known_dead(&machine).await;
        }
    }

    async fn stop(&self, id: &SandboxId) -> Result<(), StopError> {
        let stopped = self.world.state().faults.stop();
        stopped.map_err(|source| StopError { id: id.clone(), step: "kill it".into(), source })?;
        if let Some(machine) = self.world.machine(id) {
            machine.kill().await;
            machine.remove();
        }
        if let FakePlace::Remote(door) = &self.place {
            door.forget(id);
        }
        self.world.state().machines.remove(id);
        Ok(())
    }

    async fn list(&self) -> Result<Vec<FoundSandbox>, ListError> {
        let mut state = self.world.state();
        let sees_machines = state.faults.sees_machines();
        let found = |(id, machine): (&SandboxId, &Arc<FakeMachine>)| FoundSandbox {
            id: id.clone(),
            liveness: match sees_machines {
                true => Liveness::known(machine.is_alive()),
                false => Liveness::Unknown,
            },
        };
        Ok(state.machines.iter().map(found).collect())
    }

    async fn find(&self, id: &SandboxId) -> Result<Option<Liveness>, ListError> {
        let mut state = self.world.state();
        let sees_machines = state.faults.sees_machines();
        let found = |machine: &Arc<FakeMachine>| match sees_machines {
            true => Liveness::known(machine.is_alive()),
            false => Liveness::Unknown,
        };
        Ok(state.machines.get(id).map(found))
    }

    async fn usage(&self, id: &SandboxId) -> Result<Usage, UsageError> {
        let state = self.world.state();
        let usage = match state.machines.contains_key(id) {
            true => state.faults.reach().map(|()| state.faults.usage),
            false => Err(io::ErrorKind::NotFound.into()),
        };
        usage.map_err(|source| UsageError { id: id.clone(), source })
    }
}
