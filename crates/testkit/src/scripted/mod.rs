//! A driver whose machines are scripts: they speak the guest's side of the pipe. In the place of a task's loop runs the test's
//! own code, which may send messages that no real guest sends.

mod machine;
mod script;
mod talk;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};
use sandyard_protocol::Request;
use sandyard_sandbox::driver::{
    Availability, BoxedDuplex, Driver, FoundSandbox, Isolation, IsolationLevel, LinkError, ListError,
    Liveness, SandboxId, SandboxSpec, StartError, StopError, Usage, UsageError,
};

use machine::ScriptedMachine;
use script::MachineScript;
pub use talk::{Loop, OpenDesk, question};

/// The driver. Its machines outlive the servers that use it.
pub struct ScriptedDriver {
    script: MachineScript,
    machines: Mutex<BTreeMap<SandboxId, Arc<ScriptedMachine>>>,
}

impl ScriptedDriver {
    /// Creates a driver whose machines all run this script.
    pub fn new<F>(script: impl Fn(Loop) -> F + Send + Sync + 'static) -> Arc<Self>
    where
        F: Future<Output = i32> + Send + 'static,
    {
        let script: MachineScript = Arc::new(move |it| Box::pin(script(it)));
        Arc::new(Self { script, machines: Mutex::default() })
    }

    /// Returns the host's requests to any machine, in order.
    pub fn requests(&self) -> Vec<Request> {
        self.machines().values().flat_map(|machine| machine.requests()).collect()
    }

    /// Ends every machine at once, as a lost power supply would. Their markers stay.
    pub fn kill_all(&self) {
        self.machines().values().for_each(|machine| machine.kill());
    }

    fn machine(&self, id: &SandboxId) -> Option<Arc<ScriptedMachine>> {
        self.machines().get(id).cloned()
    }

    fn machines(&self) -> MutexGuard<'_, BTreeMap<SandboxId, Arc<ScriptedMachine>>> {
        self.machines.lock()
    }
}

#[async_trait]
impl Driver for ScriptedDriver {
    fn name(&self) -> &'static str {
        sandyard_protocol::drivers::FAKE
    }

    fn isolation(&self) -> Isolation {
        Isolation::without_network(IsolationLevel::None, "none")
    }

    async fn availability(&self) -> Availability {
        Availability::usable("scripted")
    }

    async fn start(&self, spec: &SandboxSpec) -> Result<(), StartError> {
        let machine = ScriptedMachine::new(spec.secret.clone(), Arc::clone(&self.script));
        self.machines().entry(spec.id.clone()).or_insert(machine);
        Ok(())
    }

    async fn next_link(&self, id: &SandboxId) -> Result<BoxedDuplex, LinkError> {
        let machine = self.machine(id).filter(|machine| machine.is_alive());
        let machine = machine.ok_or_else(|| LinkError::NotRunning(id.clone()))?;
        Ok(Box::new(machine.dial()))
    }

    async fn wait_dead(&self, id: &SandboxId) {
        if let Some(machine) = self.machine(id) {
            machine.dead().await;
        }
    }

    async fn stop(&self, id: &SandboxId) -> Result<(), StopError> {
        if let Some(machine) = self.machines().remove(id) {
            machine.kill();
        }
        Ok(())
    }

    async fn list(&self) -> Result<Vec<FoundSandbox>, ListError> {
        let found = |(id, machine): (&SandboxId, &Arc<ScriptedMachine>)| FoundSandbox {
            id: id.clone(),
            liveness: Liveness::known(machine.is_alive()),
        };
        Ok(self.machines().iter().map(found).collect())
    }

    async fn find(&self, id: &SandboxId) -> Result<Option<Liveness>, ListError> {
        Ok(self.machine(id).map(|machine| Liveness::known(machine.is_alive())))
    }

    async fn usage(&self, _: &SandboxId) -> Result<Usage, UsageError> {
        Ok(Usage::default())
    }
}
