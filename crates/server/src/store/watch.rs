//! Wakes watchers of a job after every commit, and never before it.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::job::JobId;

/// Ended jobs are never woken again, so their forgotten entries are swept when there are this many.
const SWEEP_ENTRIES: usize = 1024;

/// Watchers by job. The entry of a job without watchers is removed at its next commit, or by the sweep.
#[derive(Debug, Default, Clone)]
pub(crate) struct Watchers {
    jobs: Arc<Mutex<HashMap<JobId, watch::Sender<u64>>>>,
}

/// A wait for commits of one job.
#[derive(Debug)]
pub(crate) struct JobWatch {
    receiver: watch::Receiver<u64>,
}

impl Watchers {
    /// Watches from now on. A caller that reads the row after this call misses no commit.
    pub(crate) fn watch(&self, id: &JobId) -> JobWatch {
        let mut jobs = self.jobs.lock();
        // Only at powers of two: a sweep of the whole map at every call would make watching quadratic.
        if jobs.len() >= SWEEP_ENTRIES && jobs.len().is_power_of_two() {
            jobs.retain(|_, sender| sender.receiver_count() > 0);
        }
        let sender = jobs.entry(id.clone()).or_insert_with(|| watch::channel(0).0);
        JobWatch { receiver: sender.subscribe() }
    }

    /// The jobs that somebody watches.
    pub(super) fn watched(&self) -> Vec<JobId> {
        let jobs = self.jobs.lock();
        let watched = jobs.iter().filter(|(_, sender)| sender.receiver_count() > 0);
        watched.map(|(id, _)| id.clone()).collect()
    }

    /// Wakes the watchers of a job; forgets it when nobody is left.
    pub(crate) fn wake(&self, id: &JobId) {
        let mut jobs = self.jobs.lock();
        if let Some(sender) = jobs.get(id) {
            sender.send_modify(|count| *count += 1);
            // Under the lock, so that nobody subscribes to a sender that is about to be dropped.
            if sender.receiver_count() == 0 {
                jobs.remove(id);
            }
        }
    }
}

impl JobWatch {
    /// Returns after the next commit, or at once after one since the last call.
    pub(crate) async fn changed(&mut self) {
        if self.receiver.changed().await.is_err() {
            // The sender is gone, so no later commit can wake this watch. The caller's other branches or timeout decide.
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_commit_after_watching_is_seen_and_idle_jobs_are_forgotten() {
        let watchers = Watchers::default();
        let id = crate::job::random_id().unwrap();
        let mut watch = watchers.watch(&id);
        watchers.wake(&id);
        watch.changed().await;
        drop(watch);
        watchers.wake(&id);
        assert!(watchers.jobs.lock().is_empty());
    }
}
