//! The drivers, one folder each, and the table that names them.

pub mod catalogue;
pub mod docker;
pub mod firecracker;
pub mod native;
pub mod oci;
pub mod qemu;

pub use catalogue::{CATALOGUE, DriverEntry, DriverStage};

use std::sync::Arc;
use std::time::Duration;

use sandyard_protocol::ErrorChain;

use crate::driver::{Driver, Limits};

/// Longest time for a driver to remove the sandboxes of trials, which are killed. The next server waits for it.
const TRIAL_STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Removes the sandboxes of trials that were given up. Returns false if some are left. Call it when no driver is being tried.
///
/// A trial removes its own sandbox, but one that is cancelled can't wait for that.
pub async fn stop_trials(drivers: &[Arc<dyn Driver>]) -> bool {
    let stopping = drivers.iter().map(|driver| async {
        let late = |_| "it took too long".to_owned();
        let stopped = tokio::time::timeout(TRIAL_STOP_TIMEOUT, stop_trials_of(driver.as_ref())).await;
        let stopped = stopped.map_err(late).flatten();
        if let Err(error) = &stopped {
            tracing::warn!(driver = driver.name(), error, "a trial's sandbox could not be removed");
        }
        stopped.is_ok()
    });
    futures_util::future::join_all(stopping).await.into_iter().all(|stopped| stopped)
}

async fn stop_trials_of(driver: &dyn Driver) -> Result<(), String> {
    let found = driver.list().await.map_err(|error| ErrorChain(&error).to_string())?;
    for trial in found.iter().filter(|found| found.id.is_trial()) {
        driver.stop(&trial.id).await.map_err(|error| ErrorChain(&error).to_string())?;
    }
    Ok(())
}

/// Returns the most host memory that a sandbox of a driver of root can take, without asking the driver.
pub(crate) fn host_memory_mib(driver: &str, limits: &Limits) -> u64 {
    match driver {
        name if name == catalogue::QEMU.name => qemu::host_memory_mib(limits),
        name if name == catalogue::FIRECRACKER.name => firecracker::host_memory_mib(limits),
        _ => limits.memory_mib,
    }
}
