//! Live machines by job, for tools.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use sandyard_sandbox::machine::Machine;
use tokio_util::sync::CancellationToken;

use crate::job::JobId;

/// The machines that tools can reach now.
#[derive(Debug, Default, Clone)]
pub(crate) struct Machines {
    live: Arc<Mutex<HashMap<JobId, Arc<Machine>>>>,
}

/// A machine that tools can reach until this is dropped.
#[derive(Debug)]
pub(crate) struct Reachable {
    machines: Machines,
    job: JobId,
    /// The view that tools get.
    machine: Arc<Machine>,
    doors: CancellationToken,
}

impl Machines {
    /// Lets tools reach a machine, in place of the job's earlier one.
    pub(crate) fn publish(&self, job: &JobId, machine: &Machine) -> Reachable {
        let doors = CancellationToken::new();
        let machine = Arc::new(machine.behind_doors(doors.clone()));
        let mut live = self.live.lock();
        live.insert(job.clone(), Arc::clone(&machine));
        Reachable { machines: self.clone(), job: job.clone(), machine, doors }
    }

    /// Returns the machine of a job, if tools can reach it now.
    pub(crate) fn get(&self, job: &JobId) -> Option<Arc<Machine>> {
        self.live.lock().get(job).cloned()
    }
}

impl Reachable {
    /// Lets tools only read from now on. A call that is under way fails, unless its answer was read before.
    pub(crate) fn close_doors(&self) {
        self.doors.cancel();
    }
}

impl Drop for Reachable {
    fn drop(&mut self) {
        let mut live = self.machines.live.lock();
        // Only its own entry: the job may have another machine by now, which must stay reachable.
        if live.get(&self.job).is_some_and(|machine| Arc::ptr_eq(machine, &self.machine)) {
            live.remove(&self.job);
        }
    }
}
