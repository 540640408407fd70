//! The services that kernels need.

use std::sync::Arc;

use sandyard_protocol::KernelId;

use super::jupyter::MemoryBudget;
use super::registry::KernelRegistry;
use crate::keeper::core::KeeperCore;
use crate::keeper::events::EventLog;
use crate::keeper::job::state::MachineJob;
use crate::keeper::processes::Processes;
use crate::process_host::ProcessHost;

/// Directory of the connection files, below the job's runtime directory.
const CONNECTIONS: &str = "kernels";

/// The services that kernels need.
#[derive(Debug)]
pub(super) struct KernelContext {
    pub(super) core: Arc<KeeperCore>,
    pub(super) processes: Arc<Processes>,
    pub(super) job: Arc<MachineJob>,
    pub(super) events: Arc<EventLog>,
    pub(super) registry: KernelRegistry,
    pub(super) budget: MemoryBudget,
}

impl KernelContext {
    pub(super) fn host(&self) -> &dyn ProcessHost {
        self.core.host.as_ref()
    }

    /// Path of the connection file of a kernel.
    pub(super) fn connection_path(&self, id: &KernelId) -> String {
        let variables = self.processes.environment().of_image();
        let runtime = variables.get("XDG_RUNTIME_DIR").map_or("/tmp", String::as_str);
        format!("{runtime}/{CONNECTIONS}/kernel-{id}.json")
    }

    /// Sends a note to the host.
    pub(super) fn note(&self, text: String) {
        self.core.stop_on(self.events.note(text));
    }
}
