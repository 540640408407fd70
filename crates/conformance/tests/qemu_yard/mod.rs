//! A yard of virtual machines in a temporary directory, and a host's eye on it.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "support of tests, which fail by panicking and say what they skip"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use sandyard_conformance::{DriverSubject, TestImages};
use sandyard_programs::PROGRAMS;
use sandyard_sandbox::driver::{Driver, DriverOpenError};
use sandyard_sandbox::drivers::qemu::{Acceleration, Accelerator, QemuConfig, QemuDriver};
use sandyard_sandbox::image::vm::VmImages;
use sandyard_sandbox::image::{ImageFlavour, ImageStore};

/// A yard that cleans up after itself.
pub(crate) struct QemuYard {
    directory: tempfile::TempDir,
    images: TestImages,
}

impl QemuYard {
    /// Opens a yard, or says why the test is skipped.
    pub(crate) fn open() -> Option<Self> {
        let Some(image_root) = image_root() else {
            println!("skipped: needs an image: one built by `sandyard image build --flavour base`");
            return None;
        };
        if VmImages::new(ImageStore::new(cache()), PROGRAMS).kernel().unwrap().is_none() {
            println!("skipped: needs a kernel: one fetched by `sandyard image build --format vm`");
            return None;
        }
        let yard = Self { directory: tempfile::tempdir().unwrap(), images: TestImages::of(&image_root) };
        match QemuDriver::open(yard.config(Acceleration::Auto)) {
            Err(DriverOpenError::Unusable { detail, .. }) => {
                println!("skipped: {detail}");
                None
            }
            opened => {
                drop(opened.unwrap());
                Some(yard)
            }
        }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Machines without hardware support, which start on every host.
    pub(crate) fn subject(&self) -> DriverSubject {
        let config = self.config(Acceleration::Only(Accelerator::Tcg));
        DriverSubject {
            open: Box::new(move || Arc::new(QemuDriver::open(config.clone()).unwrap()) as Arc<dyn Driver>),
            images: self.images.clone(),
            workspaces: self.directory.path().join("workspaces"),
            disk_in_memory: false,
            own_kernel: true,
            host_devices: false,
        }
    }

    pub(crate) fn config(&self, acceleration: Acceleration) -> QemuConfig {
        QemuConfig {
            data: self.data(),
            cache: cache(),
            program: None,
            acceleration,
            boot_time: Duration::from_secs(60),
            images: Arc::new(self.images.clone()),
            programs: PROGRAMS,
            fail_at: None,
        }
    }

    /// A driver that finds a kernel in a cache of the test's own.
    pub(crate) fn with_own_kernel(&self) -> (QemuDriver, PathBuf) {
        let own = self.directory.path().join("cache");
        crate::hostile_guest::copy_kernel(&cache(), &own);
        let config = QemuConfig { cache: own.clone(), ..self.config(Acceleration::Only(Accelerator::Tcg)) };
        (QemuDriver::open(config).unwrap(), own)
    }

    /// The pid of a machine's QEMU.
    pub(crate) fn pid(&self, id: &str) -> i32 {
        let text = fs::read(self.data().join("sandboxes").join(id).join("record.json")).unwrap();
        let record: serde_json::Value = serde_json::from_slice(&text).unwrap();
        i32::try_from(record["process"]["pid"].as_i64().unwrap()).unwrap()
    }

    /// Control groups that hold this process.
    pub(crate) fn groups_of(pid: i32) -> Vec<PathBuf> {
        let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        text.lines().filter_map(|line| line.splitn(3, ':').nth(2)).map(PathBuf::from).collect()
    }

    /// Files of this yard that are behind loop devices.
    pub(crate) fn loop_devices(&self) -> Vec<String> {
        let backing = |path: &PathBuf| fs::read_to_string(path.join("loop/backing_file")).ok();
        let ours = self.directory.path().display().to_string();
        list("/sys/block").iter().filter_map(backing).filter(|file| file.starts_with(&ours)).collect()
    }

    /// Control groups that have a machine's name.
    pub(crate) fn groups_named(id: &str) -> Vec<PathBuf> {
        let root = PathBuf::from("/sys/fs/cgroup");
        let homes = list(&root).into_iter().chain([root]).flat_map(list);
        let ours = homes.filter(|home| home.to_string_lossy().contains("/sandyard-"));
        ours.map(|home| home.join(id)).filter(|group| group.exists()).collect()
    }

    /// Asserts that nothing of this yard is left on the host.
    pub(crate) fn assert_clean(&self) {
        assert_eq!(list(self.data().join("sandboxes")), Vec::<PathBuf>::new());
        assert_eq!(self.machines(), Vec::<i32>::new());
    }

    /// QEMU processes that have a disk of this yard open.
    pub(crate) fn machines(&self) -> Vec<i32> {
        let ours = self.directory.path();
        let holds = |process: &PathBuf| {
            let descriptors = list(process.join("fd"));
            let is_qemu = fs::read_link(process.join("exe")).unwrap_or_default();
            is_qemu.to_string_lossy().contains("qemu-system")
                && descriptors
                    .iter()
                    .filter_map(|fd| fs::read_link(fd).ok())
                    .any(|file| file.starts_with(ours))
        };
        let pid = |process: &PathBuf| process.file_name()?.to_str()?.parse().ok();
        list("/proc").iter().filter(|process| holds(process)).filter_map(pid).collect()
    }
}

impl Drop for QemuYard {
    /// A failed test leaves its machines running.
    fn drop(&mut self) {
        for pid in self.machines().into_iter().filter_map(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

fn cache() -> PathBuf {
    std::env::var_os("SANDYARD_CACHE").unwrap_or_else(|| "/var/cache/sandyard".into()).into()
}

/// The newest base image in the cache that the command uses too.
fn image_root() -> Option<PathBuf> {
    let images = ImageStore::new(cache()).list().ok()?;
    images.into_iter().rfind(|image| image.flavour == ImageFlavour::Base).map(|image| image.root)
}

fn list(directory: impl AsRef<Path>) -> Vec<PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}
