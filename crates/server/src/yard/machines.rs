//! Live machines by job, for tools.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use sandyard_sandbox::machine::Machine;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::job::JobId;

/// The machines that tools can reach now.
#[derive(Debug, Default, Clone)]
pub(crate) struct Machines {
    live: Arc<Mutex<HashMap<JobId, Arc<Machine>>>>,
    /// Counts the machines that were published, so that calls which wait for one look again.
    published: Arc<watch::Sender<u64>>,
}

/// A wait for machines that are published.
#[derive(Debug)]
pub(crate) struct MachinesWatch(watch::Receiver<u64>);

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
        self.published.send_modify(|count| *count += 1);
        Reachable { machines: self.clone(), job: job.clone(), machine, doors }
    }

    /// Watches from now on. A caller that looks for a machine after this call misses none.
    pub(crate) fn watch(&self) -> MachinesWatch {
        MachinesWatch(self.published.subscribe())
    }

    /// Returns the machine of a job, if tools can reach it now.
    pub(crate) fn get(&self, job: &JobId) -> Option<Arc<Machine>> {
        self.live.lock().get(job).cloned()
    }
}

impl MachinesWatch {
    /// Returns after the next machine of any job is published, or at once after one since the last call.
    pub(crate) async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            // The yard is gone, so no machine will come. The caller's other branches or timeout decide.
            std::future::pending::<()>().await;
        }
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
