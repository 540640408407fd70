//! At the start: what the last server left. Sandboxes of open jobs stay for their tasks; everything else goes.

use std::collections::HashSet;

use sandyard_sandbox::driver::SandboxId;

use crate::blobs::{BlobError, BlobScope};
use crate::error_chain::chain;
use crate::job::{JobId, JobRow};
use crate::store::StoreError;
use crate::yard::YardContext;

/// Stops sandboxes that no open job has, and removes workspaces and blobs of jobs that are not in the store.
pub(crate) async fn remove_strays(context: &YardContext) -> Result<(), StoreError> {
    let open = context.store.open_jobs().await?;
    let wanted: HashSet<SandboxId> = open.iter().filter_map(JobRow::sandbox_id).collect();
    for driver in context.drivers.all() {
        let found = match driver.list().await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(driver = driver.name(), error = %chain(&error), "sandboxes could not be listed");
                continue;
            }
        };
        for stray in found.into_iter().filter(|found| !wanted.contains(&found.id)) {
            tracing::info!(sandbox = %stray.id, "removing a sandbox that nobody owns");
            if let Err(error) = driver.stop(&stray.id).await {
                tracing::warn!(sandbox = %stray.id, error = %chain(&error), "it could not be removed");
            }
        }
    }
    let known: HashSet<JobId> = context.store.all_ids().await?.into_iter().collect();
    remove_stray_workspaces(context, &known).await;
    if let Err(error) = remove_stray_blobs(context, &known).await {
        tracing::warn!(error = %chain(&error), "stray blobs could not be removed");
    }
    Ok(())
}

/// Before the blobs: a job's folder goes with its blobs, once it is empty.
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

async fn remove_stray_blobs(context: &YardContext, known: &HashSet<JobId>) -> Result<(), BlobError> {
    let mut after = None;
    loop {
        let page = context.blobs.jobs(after.as_ref()).await?;
        let Some(last) = page.last().cloned() else { return Ok(()) };
        for job in page.into_iter().filter(|job| !known.contains(job)) {
            tracing::info!(%job, "removing the blobs of an unknown job");
            context.blobs.remove_all(&BlobScope::Job(job)).await?;
        }
        after = Some(last);
    }
}
