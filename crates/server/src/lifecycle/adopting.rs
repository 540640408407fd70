//! What earlier servers left: sandboxes that a row needs stay for the owners of their jobs, all others are stopped.
//!
//! A row is deleted only after its driver has stopped the sandbox, so a crash in between leaves the row, and the next look stops
//! the sandbox again, which is harmless.

use std::collections::{HashMap, HashSet};

use sandyard_sandbox::driver::{Driver, SandboxId};

use crate::blobs::{BlobError, BlobScope};
use crate::error_chain::chain;
use crate::job::{JobId, JobRow, SandboxRow};
use crate::store::StoreError;
use crate::store::rules::{SandboxFate, fate_of};
use crate::yard::YardContext;

/// Stops sandboxes that no row needs, and removes workspaces and blobs of jobs that are not in the store. At the start of a
/// server, when no job has an owner.
pub(crate) async fn remove_strays(context: &YardContext) -> Result<(), StoreError> {
    remove_unneeded_sandboxes(context).await?;
    // A sandbox that has no row, or whose row was just deleted, is in nobody's way but the driver's.
    let rows = context.store.sandboxes().await?;
    let known: HashSet<&SandboxId> = rows.iter().map(|row| &row.id).collect();
    for driver in context.drivers.all() {
        let found = match driver.list().await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(driver = driver.name(), error = %chain(&error), "sandboxes could not be listed");
                continue;
            }
        };
        for stray in found.iter().filter(|found| !known.contains(&found.id)) {
            stop(driver.as_ref(), &stray.id).await;
        }
    }
    let known: HashSet<JobId> = context.store.all_ids().await?.into_iter().collect();
    remove_stray_workspaces(context, &known).await;
    if let Err(error) = remove_stray_blobs(context, &known).await {
        tracing::warn!(error = %chain(&error), "stray blobs could not be removed");
    }
    Ok(())
}

/// Stops sandboxes whose rows nobody needs, then deletes the rows. One whose driver is not configured keeps its row.
pub(super) async fn remove_unneeded_sandboxes(context: &YardContext) -> Result<(), StoreError> {
    let rows = context.store.sandboxes().await?;
    if rows.is_empty() {
        return Ok(());
    }
    // Read behind the sandboxes: a job that gets one meanwhile is here with it.
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
        if stop(driver.as_ref(), &row.id).await {
            context.store.remove_sandbox(&row.id).await?;
        }
    }
    Ok(())
}

/// Stops a sandbox; returns whether that worked.
async fn stop(driver: &dyn Driver, sandbox: &SandboxId) -> bool {
    tracing::info!(%sandbox, "removing a sandbox that nobody needs");
    let stopped = driver.stop(sandbox).await;
    if let Err(error) = &stopped {
        tracing::warn!(%sandbox, error = %chain(error), "the sandbox could not be removed");
    }
    stopped.is_ok()
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
