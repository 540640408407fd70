//! The services that a job needs while it runs.

use std::path::PathBuf;
use std::sync::Arc;

use super::state::MachineJob;
use crate::keeper::activity::RequestActivity;
use crate::keeper::core::KeeperCore;
use crate::keeper::events::EventLog;
use crate::keeper::kernels::Kernels;
use crate::keeper::processes::{EndObserver, Processes};

/// The services that a job needs while it runs.
pub(in crate::keeper) struct JobContext {
    pub(in crate::keeper) core: Arc<KeeperCore>,
    pub(in crate::keeper) events: Arc<EventLog>,
    pub(in crate::keeper) state: Arc<MachineJob>,
    pub(in crate::keeper) processes: Arc<Processes>,
    pub(in crate::keeper) kernels: Arc<Kernels>,
    pub(in crate::keeper) activity: Arc<RequestActivity>,
    /// Called before the machine's processes are ended.
    pub(in crate::keeper) observer: Arc<dyn EndObserver>,
    /// Keeper's directory of scripts.
    pub(in crate::keeper) scripts: PathBuf,
    /// The socket that the agent connects to; `None` if this machine can't run tasks.
    pub(in crate::keeper) agent_socket: Option<PathBuf>,
}

impl JobContext {
    /// Ends the machine's processes, unless the job wants its background kept. Failures mean that the spawner is gone.
    pub(super) async fn end_background(&self, keep: bool) {
        if !keep {
            let _ = self.core.host.kill_everything().await;
        }
    }
}
