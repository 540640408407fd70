//! Whether native sandboxes can start here: what the host must have, and one really started.

use std::io;
use std::path::Path;

use super::record::Record;
use super::{NativeDriver, Yard};
use crate::driver::{Availability, OpenError};
use crate::parts::cgroup::LayoutError;
use crate::parts::disk;
use crate::parts::liveness::ProcessIdentity;
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

impl OpenError {
    /// The same, but no mere lack if sandboxes of the yard run: whoever took the driver for unusable would take them for dead.
    pub(super) fn unless_in_use(self, known: &[Record]) -> Self {
        let runs = |record: &Record| record.process.as_ref().is_some_and(ProcessIdentity::is_alive);
        match self {
            Self::Unusable { detail, fix } if known.iter().any(runs) => Self::Prepare {
                step: "reach the sandboxes of this yard that run",
                source: io::Error::other(format!("{detail}; {fix}")),
            },
            error => error,
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::SandboxId;

    #[test]
    fn a_lack_is_an_error_while_sandboxes_run() {
        let lack = || OpenError::Unusable { detail: "not root".into(), fix: "run as root".into() };
        let mut record = Record {
            id: SandboxId::parse("one").unwrap(),
            id_base: 1,
            groups: "s1".into(),
            workspace: "/w".into(),
            process: None,
        };
        assert!(matches!(lack().unless_in_use(&[record.clone()]), OpenError::Unusable { .. }));
        record.process = Some(ProcessIdentity::of(std::process::id().cast_signed()).unwrap());
        let OpenError::Prepare { source, .. } = lack().unless_in_use(&[record]) else { panic!() };
        assert_eq!(source.to_string(), "not root; run as root");
    }
}
