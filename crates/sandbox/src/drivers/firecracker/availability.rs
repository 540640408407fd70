//! Reports whether machines can start on this host: checks each condition, names its remedy, and boots a machine as proof.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::sync::Arc;

use super::config::FirecrackerConfig;
use super::programs::{FirecrackerPrograms, MissingProgram};
use super::state::FirecrackerState;
use crate::driver::{Availability, Driver, DriverOpenError};
use crate::host::cgroup::CgroupLayout;
use crate::host::requirements;
use crate::host::start_probe::StartProbe;

/// Size of the probe's disk, enough to boot with.
const PROBE_DISK_MIB: u64 = 64;

pub(super) struct FirecrackerHost {
    pub(super) programs: FirecrackerPrograms,
    pub(super) layout: CgroupLayout,
}

impl FirecrackerHost {
    /// Returns the programs and control groups, or names the first missing part and its remedy.
    pub(super) fn require(config: &FirecrackerConfig) -> Result<Self, DriverOpenError> {
        let firecracker =
            config.firecracker.as_deref().ok_or_else(|| MissingProgram::program("firecracker"))?;
        let jailer = config.jailer.as_deref().ok_or_else(|| MissingProgram::program("jailer"))?;
        let programs = FirecrackerPrograms::find(firecracker, jailer)?;
        if !rustix::process::geteuid().is_root() {
            return Err(DriverOpenError::unusable("the jailer needs root", "run the server as root"));
        }
        require_kvm(&config.kvm)?;
        requirements::formatter()?;
        Ok(Self { programs, layout: requirements::control_groups()? })
    }
}

fn require_kvm(device: &Path) -> Result<(), MissingProgram> {
    let lack = |detail: &str, fix: &str| MissingProgram {
        detail: format!("{} {detail}", device.display()),
        fix: fix.to_owned(),
    };
    match OpenOptions::new().read(true).write(true).open(device) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(lack(
            "is not there",
            "load the module: modprobe kvm_intel, or kvm_amd; in a virtual machine, have its host allow nested ones",
        )),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(lack(
            "can't be opened by this user",
            "usermod --append --groups kvm $USER, then log in again",
        )),
        Err(error) => {
            Err(lack(&format!("can't be opened: {error}"), "see what the kernel says: dmesg | grep kvm"))
        }
    }
}

impl From<MissingProgram> for DriverOpenError {
    fn from(lack: MissingProgram) -> Self {
        Self::unusable(lack.detail, lack.fix)
    }
}

impl FirecrackerState {
    /// Boots a machine. Without an image to boot, reports the state of the host.
    pub(super) async fn availability(self: &Arc<Self>, driver: &dyn Driver) -> Availability {
        let found = self.runtime();
        match self.images.kernel() {
            Ok(Some(_)) => {}
            Ok(None) => {
                let fix = "sandyard image build --format vm";
                return Availability::missing("there is no kernel for virtual machines", fix);
            }
            Err(error) => return Availability::missing(error.to_string(), "look at the cache of images"),
        }
        let Some(image) = self.config.images.probe_image() else {
            return Availability::untried(format!("{found}; not tried: no image yet"));
        };
        let FirecrackerConfig { data, boot_time, .. } = &self.config;
        let probe = StartProbe { data, image, disk_mib: PROBE_DISK_MIB, dial_timeout: *boot_time };
        match probe.run(driver, |id| self.consoles.said(id)).await {
            Ok(()) => Availability::usable(found),
            Err(error) => Availability::missing(
                error,
                "read what the machine printed: a KVM that is emulated itself may boot no ordinary kernel; on a slow host \
                 raise SANDYARD_FIRECRACKER_BOOT_TIME_S",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_device_is_named_with_its_fix() {
        let folder = tempfile::tempdir().unwrap();
        let lack = require_kvm(&folder.path().join("kvm")).unwrap_err();
        assert!(lack.detail.ends_with("kvm is not there") && lack.fix.contains("modprobe"), "{lack:?}");
        assert!(require_kvm(Path::new("/dev/null")).is_ok());
    }
}
