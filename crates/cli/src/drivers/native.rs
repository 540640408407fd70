//! Opens the native driver, whose launcher is this program.

use std::sync::Arc;

use sandyard_programs::PROGRAMS;
use sandyard_sandbox::driver::{Driver, DriverOpenError};
use sandyard_sandbox::drivers::native::{LAUNCHER_COMMAND, LauncherProgram, NativeConfig, NativeDriver};

use super::DriverPlan;

pub(super) fn open(plan: &DriverPlan<'_>) -> Result<Arc<dyn Driver>, DriverOpenError> {
    let driver = NativeDriver::open(NativeConfig {
        data: plan.data.to_owned(),
        run: plan.data.join("run"),
        launcher: LauncherProgram {
            program: "/proc/self/exe".into(),
            arguments: vec![LAUNCHER_COMMAND.to_owned()],
        },
        parked_slots: plan.pool,
        blank_disks: plan.pool,
        blank_disk_mib: plan.disk_mib,
        images: plan.images.clone(),
        programs: PROGRAMS,
        fail_at: None,
    })?;
    Ok(Arc::new(driver))
}
