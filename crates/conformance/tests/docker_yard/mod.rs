//! A yard of docker sandboxes in a temporary directory, and an engine for it.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "support of tests, which fail by panicking and say what they skip"
)]

pub(crate) mod engine;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sandyard_conformance::{DriverSubject, TestImages};
use sandyard_programs::PROGRAMS;
use sandyard_sandbox::driver::{Driver, DriverOpenError};
use sandyard_sandbox::drivers::docker::{DockerConfig, DockerDriver};
use sandyard_sandbox::image::{ImageFlavour, ImageStore};

pub(crate) use self::engine::Make;
use self::engine::{TestEngine, cache};

/// A yard that cleans up after itself.
pub(crate) struct DockerYard {
    directory: tempfile::TempDir,
    images: TestImages,
    pub(crate) engine: TestEngine,
}

impl DockerYard {
    /// Opens a yard, or says why the test is skipped.
    pub(crate) fn open(make: Make) -> Option<Self> {
        let skipped = |reason: &str| {
            println!("skipped: {reason}");
            None
        };
        let Some(image_root) = image_root() else {
            return skipped("needs an image built by `sandyard image build --flavour base`");
        };
        let engine = match TestEngine::find(make) {
            Ok(engine) => engine,
            Err(reason) => return skipped(&reason),
        };
        let yard =
            Self { directory: tempfile::tempdir().unwrap(), images: TestImages::of(&image_root), engine };
        match DockerDriver::open(yard.config()) {
            Err(DriverOpenError::Unusable { detail, .. }) => skipped(&detail),
            opened => {
                drop(opened.unwrap());
                Some(yard)
            }
        }
    }

    pub(crate) fn subject(&self) -> DriverSubject {
        let config = self.config();
        DriverSubject {
            open: Box::new(move || Arc::new(DockerDriver::open(config.clone()).unwrap()) as Arc<dyn Driver>),
            images: self.images.clone(),
            workspaces: self.directory.path().join("workspaces"),
            disk_in_memory: false,
            own_kernel: false,
            host_devices: false,
        }
    }

    pub(crate) fn config(&self) -> DockerConfig {
        DockerConfig {
            data: self.data(),
            run: self.directory.path().join("run"),
            socket: self.engine.socket.clone(),
            disk_mib: 4096,
            images: Arc::new(self.images.clone()),
            programs: PROGRAMS,
            allow_outdated_runtime: true,
            fail_at: None,
        }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Names of the containers of any yard, running or not.
    pub(crate) fn containers(&self) -> Vec<String> {
        let listed = self.engine.command(&[
            "ps",
            "--all",
            "--filter",
            "label=dev.sandyard.yard",
            "--format",
            "{{.Names}}",
        ]);
        listed.lines().map(str::to_owned).collect()
    }

    /// Containers, mounts, groups and sockets that sandboxes of this yard left; their markers don't count.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let mut left = self.containers();
        let shown = |paths: Vec<PathBuf>| paths.into_iter().map(|path| path.display().to_string());
        for place in ["run/links", "run/boot", "data/stage"] {
            left.extend(shown(list(&self.directory.path().join(place))));
        }
        let ours = self.directory.path().display().to_string();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        left.extend(mounts.lines().filter(|mount| mount.contains(&ours)).map(str::to_owned));
        let marked = list(&self.data().join("sandboxes"));
        let names: Vec<_> = marked.iter().filter_map(|marker| marker.file_name()).collect();
        let root = PathBuf::from("/sys/fs/cgroup");
        let homes = list(&root).into_iter().chain([root]).flat_map(|hierarchy| list(&hierarchy));
        let groups =
            homes.filter(|home| home.to_string_lossy().contains("/sandyard-")).flat_map(|home| list(&home));
        left.extend(shown(groups.filter(|group| names.iter().any(|name| group.ends_with(name))).collect()));
        left
    }

    /// Asserts that nothing of this yard is left on the host or in the engine.
    pub(crate) fn assert_clean(&self) {
        assert_eq!(self.leftovers(), Vec::<String>::new());
        assert_eq!(list(&self.data().join("sandboxes")), Vec::<PathBuf>::new());
        let ours = self.directory.path().display().to_string();
        let backing = |path: &PathBuf| fs::read_to_string(path.join("loop/backing_file")).ok();
        let loops: Vec<_> = list(Path::new("/sys/block"))
            .iter()
            .filter_map(backing)
            .filter(|file| file.starts_with(&ours))
            .collect();
        assert_eq!(loops, Vec::<String>::new());
    }
}

impl Drop for DockerYard {
    /// A failed test leaves its sandboxes; they would keep its directory busy.
    fn drop(&mut self) {
        if std::thread::panicking() && self.engine.is_ours() {
            self.engine.remove_containers();
        }
    }
}

/// The newest base image in the cache that the command uses too.
fn image_root() -> Option<PathBuf> {
    let images = ImageStore::new(cache()).list().ok()?;
    images.into_iter().rfind(|image| image.flavour == ImageFlavour::Base).map(|image| image.root)
}

fn list(directory: &Path) -> Vec<PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}
