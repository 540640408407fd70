//! Opens the driver of OCI runtimes, in a folder of its own within the yard.

use std::sync::Arc;

use sandyard_programs::PROGRAMS;
use sandyard_sandbox::driver::{Driver, DriverOpenError};
use sandyard_sandbox::drivers::catalogue;
use sandyard_sandbox::drivers::oci::{OciConfig, OciDriver};

use super::DriverPlan;

pub(super) fn open(plan: &DriverPlan<'_>) -> Result<Arc<dyn Driver>, DriverOpenError> {
    let data = plan.data.join(catalogue::OCI.name);
    let settings = &plan.settings.oci;
    let driver = OciDriver::open(OciConfig {
        run: data.join("run"),
        data,
        runtime: settings.runtime.clone(),
        allow_outdated_runtime: settings.allow_outdated_runtime,
        disk_mib: plan.disk_mib,
        images: plan.images.clone(),
        programs: PROGRAMS,
        fail_at: None,
    })?;
    Ok(Arc::new(driver))
}
