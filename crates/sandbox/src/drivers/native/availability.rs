//! Whether native sandboxes can start here: what the host must have, and one really started.

use std::path::Path;

use super::{NativeDriver, Yard};
use crate::driver::{Availability, OpenError};
use crate::parts::cgroup::LayoutError;
use crate::parts::disk;
use crate::parts::trial::{CONTAINER_PATIENCE, Trial};

/// What root must find before anything is tried. Says the first thing that is missing and how to get it.
pub(super) fn require_host() -> Result<(), OpenError> {
    let missing =
        |detail: &str, fix: &str| Err(OpenError::Unusable { detail: detail.to_owned(), fix: fix.to_owned() });
    if std::fs::read_to_string("/proc/sys/user/max_user_namespaces").is_ok_and(|text| text.trim() == "0") {
        return missing("user.max_user_namespaces is 0", "sysctl -w user.max_user_namespaces=15000");
    }
    if !Path::new("/dev/loop-control").exists() {
        return missing("there is no /dev/loop-control", "modprobe loop");
    }
    if disk::formatter().is_err() {
        return missing("mkfs.ext4 is not installed", "apt install e2fsprogs");
    }
    Ok(())
}

/// Control groups that can't be used, as a reason and a fix.
pub(super) fn unusable_groups(error: LayoutError) -> OpenError {
    OpenError::Unusable {
        detail: error.to_string(),
        fix: "mount control groups version 2: mount -t cgroup2 none /sys/fs/cgroup".into(),
    }
}

impl Yard {
    /// Tries with a real sandbox; until there is an image to try with, tells what the host has.
    pub(super) async fn availability(&self, driver: &NativeDriver) -> Availability {
        let groups = format!("{}control groups {}", self.standing.prefix(), self.layout.describe());
        let Some(image) = (self.config.probe_image)() else {
            return Availability::untried(groups);
        };
        let trial = Trial {
            data: &self.config.data,
            image_root: image,
            disk_mib: self.config.blank_disk_mib,
            patience: CONTAINER_PATIENCE,
        };
        match trial.run(driver, |id| self.started.console(id)).await {
            Ok(()) => Availability::usable(groups),
            Err(error) => Availability::missing(error, "run `sandyard doctor native`"),
        }
    }
}
