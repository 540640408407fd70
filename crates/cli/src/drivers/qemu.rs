//! Opens the driver of QEMU.

use std::sync::Arc;

use sandyard_programs::PROGRAMS;
use sandyard_sandbox::driver::{Driver, DriverOpenError};
use sandyard_sandbox::drivers::catalogue;
use sandyard_sandbox::drivers::qemu::{Acceleration, Accelerator, QemuConfig, QemuDriver};

use super::DriverPlan;
use crate::config;

pub(super) fn open(plan: &DriverPlan<'_>) -> Result<Arc<dyn Driver>, DriverOpenError> {
    let settings = &plan.settings.qemu;
    let driver = QemuDriver::open(QemuConfig {
        data: plan.data.join(catalogue::QEMU.name),
        cache: plan.cache.to_owned(),
        program: settings.program.clone(),
        acceleration: match settings.accelerator {
            config::QemuAccelerator::Auto => Acceleration::Auto,
            config::QemuAccelerator::Kvm => Acceleration::Only(Accelerator::Kvm),
            config::QemuAccelerator::Tcg => Acceleration::Only(Accelerator::Tcg),
        },
        boot_time: settings.boot_time,
        images: plan.images.clone(),
        programs: PROGRAMS,
        fail_at: None,
    })?;
    Ok(Arc::new(driver))
}
