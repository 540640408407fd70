//! A yard of sandboxes of an OCI runtime in a temporary directory.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "support of tests, which fail by panicking and say what they skip"
)]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sandyard_conformance::{DriverSubject, TestImages};
use sandyard_programs::PROGRAMS;
use sandyard_sandbox::driver::{Driver, DriverOpenError, DriverVerdict};
use sandyard_sandbox::drivers::oci::{OciConfig, OciDriver};

use crate::host_eye::{self, image_root};

/// A yard that cleans up after itself.
pub(crate) struct OciYard {
    directory: tempfile::TempDir,
    images: TestImages,
    runtime: &'static str,
}

impl OciYard {
    /// Opens a yard of a runtime, or says why the test is skipped. Every host runs runc; others are believed if they say
    /// that they can't run here.
    pub(crate) async fn open(runtime: &'static str) -> Option<Self> {
        let yard = Self::installed(runtime)?;
        if runtime != "runc" {
            let availability = OciDriver::open(yard.config()).unwrap().availability().await;
            if availability.verdict != DriverVerdict::Usable {
                println!("skipped: {}", availability.detail);
                return None;
            }
        }
        Some(yard)
    }

    /// Opens a yard of a runtime that is there, whether it runs or not. Old ones are good enough for tests.
    pub(crate) fn installed(runtime: &'static str) -> Option<Self> {
        let Some(image_root) = image_root() else {
            println!("skipped: needs an image: one built by `sandyard image build base`");
            return None;
        };
        let yard =
            Self { directory: tempfile::tempdir().unwrap(), images: TestImages::of(&image_root), runtime };
        match OciDriver::open(yard.config()) {
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

    pub(crate) fn config(&self) -> OciConfig {
        OciConfig {
            data: self.data(),
            run: self.run(),
            runtime: Some(self.runtime.to_owned()),
            allow_outdated_runtime: true,
            disk_mib: 512,
            images: Arc::new(self.images.clone()),
            programs: PROGRAMS,
            fail_at: None,
        }
    }

    /// Returns a configuration whose runtime hangs in `start` and then fails.
    pub(crate) fn config_that_hangs(&self) -> OciConfig {
        let program = self.home().join(self.runtime);
        let script = "#!/bin/sh\nfor word; do [ \"$word\" = start ] && { sleep 8; exit 1; }; done\nexec ";
        std::fs::write(&program, format!("{script}{} \"$@\"\n", self.runtime)).unwrap();
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        OciConfig { runtime: Some(program.display().to_string()), ..self.config() }
    }

    pub(crate) fn subject(&self) -> DriverSubject {
        let config = self.config();
        DriverSubject {
            open: Box::new(move || Arc::new(OciDriver::open(config.clone()).unwrap()) as Arc<dyn Driver>),
            images: self.images.clone(),
            workspaces: self.workspaces(),
            disk_in_memory: false,
            own_kernel: false,
            host_devices: false,
        }
    }

    pub(crate) fn home(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.home().join("data")
    }

    pub(crate) fn workspaces(&self) -> PathBuf {
        self.home().join("workspaces")
    }

    pub(crate) fn run(&self) -> PathBuf {
        self.home().join("run")
    }

    /// Groups, containers and sockets that sandboxes of this yard left; their markers don't count.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let groups = host_eye::groups(&self.data()).into_iter();
        let places = [self.data().join("state"), self.run()].into_iter().flat_map(host_eye::list);
        groups.chain(places).map(|path| path.display().to_string()).collect()
    }

    /// Asserts that nothing of this yard is left on the host or with the runtime.
    pub(crate) async fn assert_clean(&self) {
        host_eye::assert_clean(self.home(), &self.data(), &self.run()).await;
        assert_eq!(self.leftovers(), Vec::<String>::new());
    }
}

impl Drop for OciYard {
    /// A failed test leaves its sandboxes running.
    fn drop(&mut self) {
        host_eye::kill_groups(&self.data());
    }
}
