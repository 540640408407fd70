//! Takes over from earlier servers: owners link live sandboxes in turns (`AdoptionTurn`). Sandboxes that a row needs stay for
//! the owners of their jobs, all others are stopped.
//!
//! A row is deleted only after its driver has stopped the sandbox, so a crash in between leaves the row, and the next look stops
//! the sandbox again, which is harmless.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use sandyard_protocol::ErrorChain;
use sandyard_sandbox::driver::{Driver, SandboxId};
use tokio::sync::OwnedSemaphorePermit;

use crate::blobs::{BlobError, BlobScope};
use crate::job::{JobId, JobRow, SandboxRow};
use crate::store::StoreError;
use crate::store::rules::{SandboxFate, fate_of};
use crate::yard::YardContext;

/// Owners that link the live sandbox of a dead server at the same time. A thousand at once would keep the server's threads from
/// every request meanwhile.
pub(crate) const MAX_ADOPTIONS_AT_ONCE: usize = 32;
/// Longest time for which a sandbox that does not dial keeps others waiting.
const MAX_TURN: Duration = Duration::from_millis(50);

/// The turn of an owner that takes over a live sandbox.
pub(super) struct AdoptionTurn {
    _permit: Option<OwnedSemaphorePermit>,
}

impl AdoptionTurn {
    /// Waits for a turn.
    pub(super) async fn take(context: &YardContext) -> Self {
        // Fails only for a closed semaphore, and this one is never closed.
        Self { _permit: Arc::clone(&context.adoptions).acquire_owned().await.ok() }
    }

    /// Waits for `linking`, and gives the turn back when that is done or takes too long.
    pub(super) async fn hold_during<T>(self, linking: impl Future<Output = T>) -> T {
        tokio::pin!(linking);
        // The timeout drops only its borrow of `linking`, which goes on below.
        if let Ok(linked) = tokio::time::timeout(MAX_TURN, &mut linking).await {
            return linked;
        }
        drop(self);
        linking.await
    }
}

/// Stops sandboxes that no row needs, and removes workspaces and blobs of jobs that are not in the store. Runs when a server
/// starts, before it makes anything; other servers of the same store may work meanwhile.
pub(crate) async fn remove_strays(context: &YardContext) -> Result<(), StoreError> {
    remove_unneeded_sandboxes(context).await?;
    for driver in context.drivers.all() {
        let found = match driver.list().await {
            Ok(found) => found,
            // The other drivers are cleaned all the same; strays of this one go at the next start.
            Err(error) => {
                tracing::warn!(driver = driver.name(), error = %ErrorChain(&error), "sandboxes could not be listed");
                continue;
            }
        };
        // Read after the list. Every sandbox has its row before its driver makes it, so one that was listed and has no row by now
        // belongs to no job, whoever made it.
        let rows = context.store.sandboxes().await?;
        let known: HashSet<&SandboxId> = rows.iter().map(|row| &row.id).collect();
        for stray in found.iter().filter(|found| !known.contains(&found.id)) {
            stop(driver.as_ref(), &stray.id).await;
        }
    }
    // Ids of jobs that are being deleted count as known: their owner removes their files.
    let known: HashSet<JobId> = context.store.all_ids().await?.into_iter().collect();
    remove_stray_workspaces(context, &known).await;
    if let Err(error) = remove_stray_blobs(context).await {
        tracing::warn!(error = %ErrorChain(&error), "stray blobs could not be removed");
    }
    Ok(())
}

/// Stops sandboxes whose rows nobody needs, then deletes the rows. One whose driver is not configured keeps its row.
pub(super) async fn remove_unneeded_sandboxes(context: &YardContext) -> Result<(), StoreError> {
    let rows = context.store.sandboxes().await?;
    if rows.is_empty() {
        return Ok(());
    }
    // Read after the sandboxes. In the other order, a job that got its sandbox between the two reads would look as if it had
    // none, and the sandbox would be stopped under it.
    let open = context.store.open_jobs().await?;
    let open: HashMap<&JobId, &JobRow> = open.iter().map(|job| (&job.id, job)).collect();
    let needed = |row: &SandboxRow| {
        let job = row.job.as_ref().and_then(|job| open.get(job)).copied();
        fate_of(row, job) == SandboxFate::Keep
    };
    for row in rows.iter().filter(|row| !needed(row)) {
        let Some(driver) = context.drivers.named(&row.driver) else {
            tracing::warn!(sandbox = %row.id, driver = row.driver, "nobody can stop a sandbox without its driver");
            continue;
        };
        // The row goes last: without it, a machine that still runs would have no name to be stopped by.
        if stop(driver.as_ref(), &row.id).await {
            context.store.remove_sandbox(&row.id).await?;
        }
    }
    Ok(())
}

/// Stops a sandbox. Returns false if its driver could not; the next look tries again.
async fn stop(driver: &dyn Driver, sandbox: &SandboxId) -> bool {
    tracing::info!(%sandbox, "removing a sandbox that nobody needs");
    let stopped = driver.stop(sandbox).await;
    if let Err(error) = &stopped {
        tracing::warn!(%sandbox, error = %ErrorChain(error), "the sandbox could not be removed");
    }
    stopped.is_ok()
}

/// Runs before the blobs are removed: removing the blobs also removes the job's folder, which must be empty by then.
async fn remove_stray_workspaces(context: &YardContext, known: &HashSet<JobId>) {
    let found = match context.workspaces.jobs().await {
        Ok(found) => found,
        Err(error) => return tracing::warn!(%error, "workspaces could not be listed"),
    };
    for job in found.into_iter().filter(|job| !known.contains(job)) {
        tracing::info!(%job, "removing the workspace of an unknown job");
        if let Err(error) = context.workspaces.remove(&job).await {
            tracing::warn!(%job, %error, "the workspace could not be removed");
        }
    }
}

/// Each page is compared with the jobs that the store has after the page was listed: of another server's new job only the text of the
/// request, a copy, may be older than the row.
async fn remove_stray_blobs(context: &YardContext) -> Result<(), StrayError> {
    let mut after = None;
    loop {
        let page = context.blobs.jobs(after.as_ref()).await?;
        let Some(last) = page.last().cloned() else { return Ok(()) };
        let known: HashSet<JobId> = context.store.all_ids().await?.into_iter().collect();
        for job in page.into_iter().filter(|job| !known.contains(job)) {
            tracing::info!(%job, "removing the blobs of an unknown job");
            context.blobs.remove_all(&BlobScope::Job(job)).await?;
        }
        // Pages continue by id, not by position: removing jobs shifts positions.
        after = Some(last);
    }
}

/// Strays could not be removed.
#[derive(Debug, thiserror::Error)]
enum StrayError {
    #[error(transparent)]
    Blobs(#[from] BlobError),
    #[error(transparent)]
    Store(#[from] StoreError),
}
