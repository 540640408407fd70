//! At the start: what the last server left. Sandboxes of open jobs stay for their tasks; everything else goes.

use std::collections::HashSet;

use sandyard_sandbox::driver::SandboxId;

use crate::disk;
use crate::error_chain::chain;
use crate::job::JobRow;
use crate::store::StoreError;
use crate::yard::YardContext;

/// Stops sandboxes that no open job has, and removes folders of jobs that are not in the store.
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
    let known: HashSet<String> =
        context.store.all_ids().await?.into_iter().map(|id| id.as_str().to_owned()).collect();
    let jobs = context.layout.jobs().to_owned();
    if let Err(error) = disk::blocking(move || remove_folders(&jobs, &known)).await {
        tracing::warn!(%error, "stray folders could not be removed");
    }
    Ok(())
}

fn remove_folders(jobs: &std::path::Path, known: &HashSet<String>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(jobs)? {
        let entry = entry?;
        let name = entry.file_name();
        if !known.contains(name.to_string_lossy().as_ref()) {
            tracing::info!(folder = %entry.path().display(), "removing a folder that belongs to no job");
            disk::remove_tree(&entry.path())?;
        }
    }
    Ok(())
}
