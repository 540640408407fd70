//! A yard of native sandboxes in a temporary directory, and a host's eye on it.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "support of tests, which fail by panicking and say what they skip"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::process::{Pid, Signal, kill_process};
use sandyard_conformance::{DriverSubject, TestImages};
use sandyard_programs::PROGRAMS;
use sandyard_sandbox::driver::{Driver, DriverOpenError};
use sandyard_sandbox::drivers::native::{LauncherProgram, NativeConfig, NativeDriver, NativeStep};

use crate::host_eye::{self, image_root, list};

/// Conditions of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Root, or the conditions of an ordinary user, and a root file system to start.
    Image,
}

/// A yard that cleans up after itself.
pub(crate) struct NativeYard {
    directory: tempfile::TempDir,
    images: TestImages,
}

impl NativeYard {
    /// Opens a yard, or says why the test is skipped.
    pub(crate) fn open(need: Need) -> Option<Self> {
        let Some(image_root) = image_root() else {
            println!("skipped: needs {need:?}: one built by `sandyard image build base`");
            return None;
        };
        let yard = Self { directory: tempfile::tempdir().unwrap(), images: TestImages::of(&image_root) };
        match NativeDriver::open(yard.config(None)) {
            Err(DriverOpenError::Unusable { detail, .. }) if !is_root() => {
                println!("skipped: {detail}");
                None
            }
            opened => {
                drop(opened.unwrap());
                Some(yard)
            }
        }
    }

    pub(crate) fn home(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    pub(crate) fn run(&self) -> PathBuf {
        self.directory.path().join("run")
    }

    pub(crate) fn subject(&self) -> DriverSubject {
        let config = self.config(None);
        DriverSubject {
            open: Box::new(move || Arc::new(NativeDriver::open(config.clone()).unwrap()) as Arc<dyn Driver>),
            images: self.images.clone(),
            workspaces: self.workspaces(),
            disk_in_memory: !is_root(),
            own_kernel: false,
            host_devices: !is_root(),
        }
    }

    fn workspaces(&self) -> PathBuf {
        self.directory.path().join("workspaces")
    }

    /// Removes every workspace, as their maker does in the end.
    pub(crate) fn remove_workspaces(&self) {
        fs::remove_dir_all(self.workspaces()).unwrap();
    }

    pub(crate) fn driver_failing_at(&self, step: NativeStep) -> NativeDriver {
        NativeDriver::open(self.config(Some(step))).unwrap()
    }

    fn config(&self, fail_at: Option<NativeStep>) -> NativeConfig {
        NativeConfig {
            data: self.data(),
            run: self.run(),
            launcher: LauncherProgram {
                program: env!("CARGO_BIN_EXE_sandyard-launcher").into(),
                arguments: Vec::new(),
            },
            parked_slots: 1,
            blank_disks: 1,
            blank_disk_mib: 4096,
            images: Arc::new(self.images.clone()),
            programs: PROGRAMS,
            fail_at,
        }
    }

    /// Loop devices that hold a sandbox's disk.
    pub(crate) fn sandbox_disks(&self) -> Vec<String> {
        host_eye::loop_devices_below(&self.workspaces())
    }

    /// Asserts that nothing of this yard is left on the host.
    pub(crate) async fn assert_clean(&self) {
        assert!(!self.data().join("holder.json").exists(), "the yard's namespace is still held");
        host_eye::assert_clean(self.directory.path(), &self.data(), &self.run()).await;
    }
}

impl Drop for NativeYard {
    /// A failed test leaves its sandboxes running; killing their groups ends them, and the directories go once they are empty.
    fn drop(&mut self) {
        host_eye::kill_groups(&self.data());
    }
}

/// Kills the launchers that this process started; tells how many.
pub(crate) fn kill_launchers() -> usize {
    let own = std::process::id().to_string();
    let is_ours = |process: &PathBuf| {
        let status = fs::read_to_string(process.join("status")).unwrap_or_default();
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")).map(str::trim);
        let program = fs::read_link(process.join("exe")).unwrap_or_default();
        parent == Some(&own) && program == Path::new(env!("CARGO_BIN_EXE_sandyard-launcher"))
    };
    let pid = |process: &PathBuf| process.file_name()?.to_str()?.parse().ok().and_then(Pid::from_raw);
    let launchers = list("/proc").into_iter().filter(is_ours).filter_map(|process| pid(&process));
    launchers.filter(|&pid| kill_process(pid, Signal::KILL).is_ok()).count()
}

/// True if sandboxes are root's, with disks; false if they are an ordinary user's, in memory.
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
