//! Opens the driver of container engines, whose socket is configured or found.

use std::sync::Arc;

use sandyard_programs::PROGRAMS;
use sandyard_sandbox::driver::{Driver, DriverOpenError};
use sandyard_sandbox::drivers::catalogue;
use sandyard_sandbox::drivers::docker::{DockerConfig, DockerDriver};

use super::DriverPlan;
use crate::images::engine;

pub(super) fn open(plan: &DriverPlan<'_>) -> Result<Arc<dyn Driver>, DriverOpenError> {
    let data = plan.data.join(catalogue::DOCKER.name);
    let settings = &plan.settings.docker;
    let driver = DockerDriver::open(DockerConfig {
        run: data.join("run"),
        data,
        socket: engine::socket(settings.socket.as_deref()),
        disk_mib: plan.disk_mib,
        images: plan.images.clone(),
        programs: PROGRAMS,
        allow_outdated_runtime: settings.allow_outdated_runtime,
        fail_at: None,
    })?;
    Ok(Arc::new(driver))
}
