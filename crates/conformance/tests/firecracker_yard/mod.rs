//! A yard of Firecracker machines in a temporary directory, on the double or on the real one, and a host's eye on it.

#![expect(clippy::unwrap_used, reason = "support of tests, which fail by panicking")]

pub(crate) mod real;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sandyard_conformance::{DriverSubject, TestImages};
use sandyard_programs::PROGRAMS;
use sandyard_sandbox::driver::{Driver, DriverOpenError, Limits, SandboxSpec};
use sandyard_sandbox::drivers::firecracker::{FirecrackerConfig, FirecrackerDriver};
use serde_json::Value;

/// Limits of the double's machines: enough for it, and quick to format.
pub(crate) const SMALL: Limits = Limits { cpus: 1.5, memory_mib: 256, disk_mib: 64, pids: 64, io_mib_s: 256 };

/// A yard of the double.
pub(crate) struct DoubleYard {
    directory: PathBuf,
    kept: Option<tempfile::TempDir>,
}

impl DoubleYard {
    /// A new yard. The double is started by two names, from a folder of its own.
    pub(crate) fn new() -> Self {
        let kept = tempfile::tempdir().unwrap();
        let yard = Self { directory: kept.path().to_owned(), kept: Some(kept) };
        for folder in ["programs", "workspaces", "cache"] {
            fs::create_dir(yard.directory.join(folder)).unwrap();
        }
        for name in ["firecracker", "jailer"] {
            fs::copy(env!("CARGO_BIN_EXE_fake-firecracker"), yard.directory.join("programs").join(name))
                .unwrap();
        }
        super::image::make(&yard.directory.join("cache"));
        yard
    }

    /// Opens the same yard in another process.
    pub(crate) fn at(directory: PathBuf) -> Self {
        Self { directory, kept: None }
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    fn config(&self) -> FirecrackerConfig {
        FirecrackerConfig {
            data: self.data(),
            cache: self.directory.join("cache"),
            firecracker: Some(self.directory.join("programs/firecracker")),
            jailer: Some(self.directory.join("programs/jailer")),
            // The double needs none, and the machine may have none.
            kvm: "/dev/null".into(),
            boot_time: Duration::from_secs(60),
            images: Arc::new(self.images()),
            programs: PROGRAMS,
        }
    }

    fn images(&self) -> TestImages {
        TestImages::of(&super::image::root(&self.directory.join("cache")))
    }

    pub(crate) fn try_open(&self) -> Result<FirecrackerDriver, DriverOpenError> {
        FirecrackerDriver::open(self.config())
    }

    pub(crate) fn open(&self) -> Arc<FirecrackerDriver> {
        Arc::new(self.try_open().unwrap())
    }

    pub(crate) fn spec(&self, name: &str) -> SandboxSpec {
        let config = self.config();
        let subject = DriverSubject {
            open: Box::new(move || {
                Arc::new(FirecrackerDriver::open(config.clone()).unwrap()) as Arc<dyn Driver>
            }),
            images: self.images(),
            workspaces: self.directory.join("workspaces"),
            disk_in_memory: false,
            own_kernel: true,
            host_devices: false,
        };
        subject.spec(name, SMALL).unwrap()
    }

    /// Sets the faults of the double from now on.
    pub(crate) fn faults(&self, faults: &Value) {
        fs::write(self.directory.join("programs/faults.json"), faults.to_string()).unwrap();
    }

    /// Returns the requests to the double so far, and clears them.
    pub(crate) fn transcript(&self) -> Vec<(String, Value)> {
        let path = self.directory.join("programs/transcript.jsonl");
        let text = fs::read_to_string(&path).unwrap_or_default();
        let _ = fs::remove_file(path);
        let line = |line: &str| {
            let line: Value = serde_json::from_str(line).unwrap();
            (line["what"].as_str().unwrap().to_owned(), line["detail"].clone())
        };
        text.lines().map(line).collect()
    }

    /// True if the double got that request by now.
    pub(crate) fn asked(&self, what: &str) -> bool {
        let text = fs::read_to_string(self.directory.join("programs/transcript.jsonl")).unwrap_or_default();
        text.contains(&format!("\"what\":\"{what}\""))
    }

    /// Names that sandboxes with markers gave to their jails and groups.
    pub(crate) fn names(&self) -> Vec<String> {
        let named = |folder: PathBuf| {
            let record: Value = serde_json::from_slice(&fs::read(folder.join("record.json")).ok()?).ok()?;
            record["name"].as_str().map(str::to_owned)
        };
        list(&self.data().join("sandboxes")).into_iter().filter_map(named).collect()
    }

    /// Returns everything on the host that belongs to this yard's machines, except markers and workspaces.
    pub(crate) fn leftovers(&self, names: &[String]) -> Vec<String> {
        let jails = list(&self.data().join("jails"));
        let hierarchies = list(Path::new("/sys/fs/cgroup")).into_iter().chain(["/sys/fs/cgroup".into()]);
        let yards =
            hierarchies.flat_map(|hierarchy| list(&hierarchy)).filter(|path| is_named(path, "sandyard-"));
        let groups =
            yards.flat_map(|yard| list(&yard)).filter(|group| names.iter().any(|name| group.ends_with(name)));
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let own = self.directory.display().to_string();
        let mounts = mounts.lines().filter(|line| line.contains(&own)).map(str::to_owned).collect::<Vec<_>>();
        let paths = jails.into_iter().chain(groups).map(|path| path.display().to_string());
        let processes = self.processes().into_iter().map(|pid| format!("process {pid}"));
        paths.chain(mounts).chain(processes).collect()
    }

    /// Processes that run the double of this yard.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let programs = self.directory.join("programs");
        let runs = |pid: &i32| {
            let program = fs::read_link(format!("/proc/{pid}/exe"));
            program.is_ok_and(|program| program.starts_with(&programs))
        };
        let pids = list(Path::new("/proc")).into_iter();
        pids.filter_map(|path| path.file_name()?.to_str()?.parse().ok()).filter(runs).collect()
    }

    /// The jail's root of the only sandbox.
    pub(crate) fn jail_root(&self, id: &str) -> PathBuf {
        let name = self.names().pop().unwrap();
        self.data().join("jails").join(name).join("firecracker").join(id).join("root")
    }
}

impl Drop for DoubleYard {
    /// A test that failed in the middle leaves no process.
    fn drop(&mut self) {
        if self.kept.is_some() {
            for pid in self.processes() {
                if let Some(pid) = rustix::process::Pid::from_raw(pid) {
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
                }
            }
        }
    }
}

/// Returns the owner of a file and its permission bits.
pub(crate) fn owner_and_mode(path: &Path) -> (u32, u32) {
    let found = fs::symlink_metadata(path).unwrap();
    (found.uid(), found.mode() & 0o777)
}

fn list(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn is_named(path: &Path, prefix: &str) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix))
}
