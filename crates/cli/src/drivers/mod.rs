//! The drivers of this machine: a table of them, in the order in which `auto` tries them, and how each is opened.
//!
//! A driver is a file here that turns the operator's settings into the driver's own configuration, and a line in `TABLE`.

mod docker;
mod firecracker;
mod native;
mod oci;
mod qemu;
mod unusable;

use std::path::Path;
use std::sync::Arc;

use sandyard_sandbox::driver::{Driver, IsolationLevel, OpenError, ProbeImage};

use self::unusable::Unusable;
use crate::config::DriverSettings;

/// One driver.
struct DriverEntry {
    name: &'static str,
    /// What it would give where it can't be opened.
    level: IsolationLevel,
    open: fn(&DriverPlan<'_>) -> Result<Arc<dyn Driver>, OpenError>,
}

/// The order is that of `auto`: firecracker, native, oci, docker, qemu.
const TABLE: &[DriverEntry] = &[
    DriverEntry { name: firecracker::NAME, level: IsolationLevel::Vm, open: firecracker::open },
    DriverEntry { name: native::NAME, level: IsolationLevel::Container, open: native::open },
    DriverEntry { name: oci::NAME, level: IsolationLevel::Container, open: oci::open },
    DriverEntry { name: docker::NAME, level: IsolationLevel::Container, open: docker::open },
    DriverEntry { name: qemu::NAME, level: IsolationLevel::Vm, open: qemu::open },
];

/// What drivers need.
pub(crate) struct DriverPlan<'a> {
    /// The yard, or a folder to try things in.
    pub(crate) data: &'a Path,
    /// Where images are kept, in whatever form.
    pub(crate) cache: &'a Path,
    /// Parts of sandboxes kept ready.
    pub(crate) pool: usize,
    /// The default disk of a sandbox.
    pub(crate) disk_mib: u64,
    /// Where an image is to try a start with.
    pub(crate) probe_image: ProbeImage,
    /// What the operator set for each.
    pub(crate) settings: &'a DriverSettings,
}

/// A driver that this machine can run fails to open. Whoever took it for unusable would take its sandboxes for dead.
#[derive(Debug, thiserror::Error)]
#[error("open the driver {name}")]
pub(crate) struct OpenDriverError {
    name: &'static str,
    #[source]
    source: OpenError,
}

/// The names that `--driver` knows.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|entry| entry.name)
}

/// All drivers, or the one that is wanted. One that this machine can't run is stood in for by one that says why. Must be called
/// within a tokio runtime. Starts no sandbox.
pub(crate) fn open(
    plan: &DriverPlan<'_>,
    wanted: Option<&str>,
) -> Result<Vec<Arc<dyn Driver>>, OpenDriverError> {
    let wanted = TABLE.iter().filter(|entry| wanted.is_none_or(|name| name == entry.name));
    wanted.map(|entry| open_one(entry, plan)).collect()
}

fn open_one(entry: &DriverEntry, plan: &DriverPlan<'_>) -> Result<Arc<dyn Driver>, OpenDriverError> {
    match (entry.open)(plan) {
        Ok(driver) => Ok(driver),
        Err(OpenError::Unusable { detail, fix }) => {
            Ok(Arc::new(Unusable::new(entry.name, entry.level, detail, fix)))
        }
        Err(source @ OpenError::Prepare { .. }) => Err(OpenDriverError { name: entry.name, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan<'a>(folder: &'a Path, settings: &'a DriverSettings) -> DriverPlan<'a> {
        let probe_image: ProbeImage = Arc::new(|| None);
        DriverPlan { data: folder, cache: folder, pool: 0, disk_mib: 64, probe_image, settings }
    }

    #[test]
    fn the_order_is_that_of_the_design() {
        let design = ["firecracker", "native", "oci", "docker", "qemu"];
        let place = |name| design.iter().position(|known| *known == name).unwrap();
        assert!(names().is_sorted_by_key(place));
    }

    #[tokio::test]
    async fn what_cant_run_here_is_stood_in_for_and_what_broke_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let settings = DriverSettings::default();
        let plan = plan(folder.path(), &settings);
        let lacking = DriverEntry {
            name: "lacking",
            level: IsolationLevel::Vm,
            open: |_| Err(OpenError::Unusable { detail: "no kvm".to_owned(), fix: "get one".to_owned() }),
        };
        let driver = open_one(&lacking, &plan).unwrap();
        assert_eq!((driver.name(), driver.isolation().level), ("lacking", IsolationLevel::Vm));
        assert!(!driver.availability().await.may_start());

        let broken = DriverEntry {
            open: |_| Err(OpenError::Prepare { step: "read", source: std::io::Error::other("torn") }),
            ..lacking
        };
        let error = open_one(&broken, &plan).err().unwrap();
        assert_eq!(error.to_string(), "open the driver lacking");
    }
}
