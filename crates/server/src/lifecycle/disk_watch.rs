//! Watches the yard's disk, and has the job end that uses most of it when the disk runs low.
//!
//! Admission keeps promises within what is free. The disk runs low all the same if another program fills it, or if the operator
//! allowed more promises than there is space. Then every sandbox is about to lose writes, and its disk with them; ending one of
//! them in time saves the others.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::AbortHandle;

use crate::job::JobId;
use crate::yard::{JobVerdict, YardContext};

/// Smallest use for which a job is ended. Ending a smaller one would not help.
const LEAST_USE_MIB: u64 = 64;
/// Time that an ended job has to give its space back, before the next one is chosen.
const CLEARING_TIME: Duration = Duration::from_secs(30);
/// Time between two warnings about a disk that no job has filled.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// The watch. Dropping it ends it.
#[derive(Debug)]
pub(super) struct DiskWatch(AbortHandle);

impl DiskWatch {
    /// Begins to watch.
    pub(super) fn start(context: &Arc<YardContext>) -> Self {
        let context = Arc::clone(context);
        Self(tokio::spawn(async move { watch(&context).await }).abort_handle())
    }
}

impl Drop for DiskWatch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn watch(context: &YardContext) {
    let mut ended: Option<(JobId, Instant)> = None;
    let mut warned: Option<Instant> = None;
    loop {
        tokio::time::sleep(context.config.admission.disk_look).await;
        let admission = context.admission.clone();
        // Reads the blocks of every disk, on a thread that may block.
        let Ok(Some(hog)) = tokio::task::spawn_blocking(move || admission.disk_hog()).await else { continue };
        if hog.used_mib < LEAST_USE_MIB {
            if warned.is_none_or(|at| at.elapsed() >= WARNING_INTERVAL) {
                warned = Some(Instant::now());
                tracing::error!("the yard's disk runs low, and no job uses much of it; free space on it");
            }
            continue;
        }
        let is_clearing = ended.as_ref().is_some_and(|(_, since)| since.elapsed() < CLEARING_TIME)
            && ended
                .as_ref()
                .is_some_and(|(job, _)| context.verdicts.about(job).is_some() || *job == hog.job);
        if is_clearing {
            continue;
        }
        tracing::error!(job = %hog.job, used_mib = hog.used_mib, "the yard's disk runs low; ending the job that uses most");
        context.verdicts.pass(&hog.job, JobVerdict::DiskExhausted { used_mib: hog.used_mib });
        ended = Some((hog.job, Instant::now()));
    }
}
