//! Whether native sandboxes can start here: what the host must have, and one really started.

use super::{NativeDriver, Yard};
use crate::driver::{Availability, OpenError};
use crate::parts::requirements;
use crate::parts::trial::{CONTAINER_PATIENCE, Trial};

/// What root must find before anything is tried. Says the first thing that is missing and how to get it.
pub(super) fn require_host() -> Result<(), OpenError> {
    if std::fs::read_to_string("/proc/sys/user/max_user_namespaces").is_ok_and(|text| text.trim() == "0") {
        let fix = "sysctl -w user.max_user_namespaces=15000";
        return Err(OpenError::unusable("user.max_user_namespaces is 0", fix));
    }
    requirements::mounted_disks()
}

impl Yard {
    /// Tries with a real sandbox; until there is an image to try with, tells what the host has.
    pub(super) async fn availability(&self, driver: &NativeDriver) -> Availability {
        let groups = format!("{}control groups {}", self.standing.prefix(), self.sandboxes.layout.describe());
        let Some(image) = self.config.images.probe_image() else {
            return Availability::untried(groups);
        };
        let trial = Trial {
            data: &self.config.data,
            image,
            disk_mib: self.config.blank_disk_mib,
            patience: CONTAINER_PATIENCE,
        };
        match trial.run(driver, |id| self.started.console(id)).await {
            Ok(()) => Availability::usable(groups),
            Err(error) => Availability::missing(error, "run `sandyard doctor native`"),
        }
    }
}
