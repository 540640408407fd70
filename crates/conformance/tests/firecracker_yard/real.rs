//! A yard on the real Firecracker, where that and a KVM that boots an ordinary kernel are to be had.

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
use sandyard_sandbox::driver::{Driver, DriverVerdict};
use sandyard_sandbox::drivers::firecracker::{FirecrackerConfig, FirecrackerDriver};
use sandyard_sandbox::image::{ImageFlavour, ImageStore};

/// A yard that cleans up after itself.
pub(crate) struct RealYard {
    directory: tempfile::TempDir,
    config: FirecrackerConfig,
    images: TestImages,
}

impl RealYard {
    /// Opens a yard in which a machine was seen to boot, or says why the test is skipped.
    pub(crate) async fn open() -> Option<Self> {
        let yard = Self::find().map_err(|reason| println!("skipped: {reason}")).ok()?;
        let driver = match FirecrackerDriver::open(yard.config.clone()) {
            Ok(driver) => driver,
            Err(error) => {
                println!("skipped: {error}");
                return None;
            }
        };
        let availability = driver.availability().await;
        if availability.verdict != DriverVerdict::Usable {
            println!("skipped: no machine boots here: {}", availability.detail);
            return None;
        }
        Some(yard)
    }

    fn find() -> Result<Self, &'static str> {
        let firecracker = on_path("firecracker").ok_or("firecracker is not on the PATH")?;
        let jailer = on_path("jailer").ok_or("jailer is not on the PATH")?;
        let cache: PathBuf =
            std::env::var_os("SANDYARD_CACHE").unwrap_or_else(|| "/var/cache/sandyard".into()).into();
        let images = ImageStore::new(&cache).list().unwrap_or_default();
        let image = images.into_iter().rfind(|image| image.flavour == ImageFlavour::Base);
        let tree = image.ok_or("needs a base image: `sandyard image build --flavour base`")?.root;
        let directory = tempfile::tempdir().unwrap();
        let images = TestImages::of(&tree);
        let config = FirecrackerConfig {
            data: directory.path().join("data"),
            cache,
            firecracker: Some(firecracker),
            jailer: Some(jailer),
            kvm: "/dev/kvm".into(),
            boot_time: boot_time(),
            images: Arc::new(images.clone()),
            programs: PROGRAMS,
        };
        Ok(Self { directory, config, images })
    }

    pub(crate) fn driver(&self) -> Arc<FirecrackerDriver> {
        Arc::new(FirecrackerDriver::open(self.config.clone()).unwrap())
    }

    pub(crate) fn subject(&self) -> DriverSubject {
        let config = self.config.clone();
        DriverSubject {
            open: Box::new(move || {
                Arc::new(FirecrackerDriver::open(config.clone()).unwrap()) as Arc<dyn Driver>
            }),
            images: self.images.clone(),
            workspaces: self.directory.path().join("workspaces"),
            disk_in_memory: false,
            own_kernel: true,
            host_devices: false,
        }
    }

    /// A driver that finds a kernel in a cache of the test's own.
    pub(crate) fn with_own_kernel(&self) -> (FirecrackerDriver, PathBuf) {
        let own = self.directory.path().join("cache");
        crate::hostile_guest::copy_kernel(&self.config.cache, &own);
        let config = FirecrackerConfig { cache: own.clone(), ..self.config.clone() };
        (FirecrackerDriver::open(config).unwrap(), own)
    }

    fn record(&self, id: &str) -> Option<serde_json::Value> {
        let file = self.config.data.join("sandboxes").join(id).join("record.json");
        serde_json::from_slice(&fs::read(file).ok()?).ok()
    }

    /// The pid of a machine's Firecracker.
    pub(crate) fn pid(&self, id: &str) -> Option<i32> {
        i32::try_from(self.record(id)?["process"]["pid"].as_i64()?).ok()
    }

    /// The kernel's timers in the groups of a machine.
    pub(crate) fn timers_of(&self, id: &str) -> Vec<i32> {
        let group = format!("/{}/job", self.record(id).unwrap()["name"].as_str().unwrap());
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let pids = processes.filter_map(|process| process.file_name().to_str()?.parse::<i32>().ok());
        let read =
            |pid: &i32, file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let is_timer = |pid: &i32| read(pid, "comm").starts_with("kvm-pit/");
        pids.filter(is_timer).filter(|pid| read(pid, "cgroup").contains(&group)).collect()
    }

    /// Jails that are left.
    pub(crate) fn jails(&self) -> usize {
        fs::read_dir(self.config.data.join("jails")).unwrap().count()
    }
}

impl Drop for RealYard {
    /// A failed test leaves its machines running.
    fn drop(&mut self) {
        for record in fs::read_dir(self.config.data.join("sandboxes")).into_iter().flatten().flatten() {
            let pid = self.pid(&record.file_name().to_string_lossy()).and_then(Pid::from_raw);
            let _ = pid.map(|pid| kill_process(pid, Signal::KILL));
        }
    }
}

/// As the server takes it: a machine within an emulated one boots in minutes.
fn boot_time() -> Duration {
    let given = std::env::var("SANDYARD_FIRECRACKER_BOOT_TIME_S").ok();
    Duration::from_secs(given.and_then(|seconds| seconds.parse().ok()).unwrap_or(60))
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|program: &PathBuf| Path::exists(program))
}
