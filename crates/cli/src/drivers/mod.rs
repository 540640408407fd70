//! Opens the drivers of this machine, in the order in which `auto` tries them.
//!
//! A driver is a file here that turns the operator's settings into the driver's own configuration, and a line in `OPENERS`. Names
//! and levels are in the catalogue of the sandbox crate.

mod docker;
mod firecracker;
mod late;
mod native;
mod oci;
mod qemu;

use std::path::Path;
use std::sync::Arc;

use sandyard_sandbox::driver::{Driver, DriverOpenError, LocalImages};
use sandyard_sandbox::drivers::{DriverEntry, catalogue};

use self::late::LateDriver;
use crate::config::DriverSettings;

/// Opens a driver of the catalogue.
struct DriverOpener {
    entry: DriverEntry,
    open: fn(&DriverPlan<'_>) -> Result<Arc<dyn Driver>, DriverOpenError>,
}

/// Openers of all drivers, in the order of the catalogue.
const OPENERS: &[DriverOpener] = &[
    DriverOpener { entry: catalogue::FIRECRACKER, open: firecracker::open },
    DriverOpener { entry: catalogue::NATIVE, open: native::open },
    DriverOpener { entry: catalogue::OCI, open: oci::open },
    DriverOpener { entry: catalogue::DOCKER, open: docker::open },
    DriverOpener { entry: catalogue::QEMU, open: qemu::open },
];

/// The inputs that drivers are opened with.
pub(crate) struct DriverPlan<'a> {
    /// The data directory, or a temporary folder for trials.
    pub(crate) data: &'a Path,
    /// Directory of images and kernels.
    pub(crate) cache: &'a Path,
    /// Number of prepared control groups and blank disks.
    pub(crate) pool: usize,
    /// Default disk size of a sandbox.
    pub(crate) disk_mib: u64,
    pub(crate) images: Arc<dyn LocalImages>,
    pub(crate) settings: &'a DriverSettings,
}

/// A driver that this machine can run failed to open. It must not be treated as unusable: its sandboxes would count as dead.
#[derive(Debug, thiserror::Error)]
#[error("open the driver {name}")]
pub(crate) struct OpenDriverError {
    name: &'static str,
    #[source]
    source: DriverOpenError,
}

/// Returns the names that `--driver` accepts.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    OPENERS.iter().map(|opener| opener.entry.name)
}

/// Opens all drivers, or only the wanted one. A driver that this machine can't run is replaced by one that reports why, and opens
/// once the machine can. Must be called within a tokio runtime. Starts no sandbox.
pub(crate) fn open(
    plan: &DriverPlan<'_>,
    wanted: Option<&str>,
) -> Result<Vec<Arc<dyn Driver>>, OpenDriverError> {
    let wanted = OPENERS.iter().filter(|opener| wanted.is_none_or(|name| name == opener.entry.name));
    wanted.map(|opener| open_one(opener, plan)).collect()
}

fn open_one(
    opener: &'static DriverOpener,
    plan: &DriverPlan<'_>,
) -> Result<Arc<dyn Driver>, OpenDriverError> {
    let entry = &opener.entry;
    match (opener.open)(plan) {
        Ok(driver) => Ok(driver),
        // Only a lack of the machine: a driver that failed to prepare may own live sandboxes, and a placeholder would
        // report them as dead.
        Err(DriverOpenError::Unusable { detail, fix }) => {
            Ok(Arc::new(LateDriver::new(opener, plan, detail, fix)))
        }
        Err(source @ DriverOpenError::Prepare { .. }) => Err(OpenDriverError { name: entry.name, source }),
    }
}

#[cfg(test)]
mod tests {
    use sandyard_sandbox::driver::IsolationLevel;
    use sandyard_sandbox::drivers::{CATALOGUE, DriverStage};

    use super::*;

    fn plan<'a>(folder: &'a Path, settings: &'a DriverSettings) -> DriverPlan<'a> {
        let images = Arc::new(sandyard_sandbox::image::ImageStore::new(folder));
        DriverPlan { data: folder, cache: folder, pool: 0, disk_mib: 64, images, settings }
    }

    #[test]
    fn every_built_driver_of_the_catalogue_is_opened_in_its_order() {
        let built = CATALOGUE.iter().filter(|entry| entry.stage == DriverStage::Built);
        assert!(names().eq(built.map(|entry| entry.name)));
    }

    static LACKING: DriverOpener = DriverOpener {
        entry: DriverEntry { name: "lacking", ..catalogue::QEMU },
        open: |plan| {
            if plan.data.join("installed").exists() {
                return native::open(plan);
            }
            Err(DriverOpenError::Unusable { detail: "no kvm".to_owned(), fix: "get one".to_owned() })
        },
    };
    static BROKEN: DriverOpener = DriverOpener {
        entry: DriverEntry { name: "lacking", ..catalogue::QEMU },
        open: |_| Err(DriverOpenError::Prepare { step: "read", source: std::io::Error::other("torn") }),
    };

    #[tokio::test]
    async fn what_cant_run_here_is_stood_in_for_until_it_can_and_what_broke_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let settings = DriverSettings::default();
        let plan = plan(folder.path(), &settings);
        let driver = open_one(&LACKING, &plan).unwrap();
        assert_eq!((driver.name(), driver.isolation().level), ("lacking", IsolationLevel::Vm));
        let lack = driver.availability().await;
        assert_eq!((lack.detail.as_str(), lack.fix.as_deref()), ("no kvm", Some("get one")));
        assert!(driver.list().await.unwrap().is_empty());

        std::fs::write(folder.path().join("installed"), "").unwrap();
        assert_ne!(driver.availability().await.detail, "no kvm");

        let error = open_one(&BROKEN, &plan).err().unwrap();
        assert_eq!(error.to_string(), "open the driver lacking");
    }
}
