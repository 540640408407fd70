//! Opens the driver of Firecracker, which is searched on the PATH unless it is configured.

use std::path::PathBuf;
use std::sync::Arc;

use sandyard_programs::PROGRAMS;
use sandyard_sandbox::driver::{Driver, DriverOpenError};
use sandyard_sandbox::drivers::catalogue;
use sandyard_sandbox::drivers::firecracker::{FirecrackerConfig, FirecrackerDriver};

use super::DriverPlan;

pub(super) fn open(plan: &DriverPlan<'_>) -> Result<Arc<dyn Driver>, DriverOpenError> {
    let settings = &plan.settings.firecracker;
    let driver = FirecrackerDriver::open(FirecrackerConfig {
        data: plan.data.join(catalogue::FIRECRACKER.name),
        cache: plan.cache.to_owned(),
        firecracker: settings.program.clone().or_else(|| on_path("firecracker")),
        jailer: settings.jailer.clone().or_else(|| on_path("jailer")),
        kvm: "/dev/kvm".into(),
        boot_time: settings.boot_time,
        images: plan.images.clone(),
        programs: PROGRAMS,
    })?;
    Ok(Arc::new(driver))
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|program| program.is_file())
}
