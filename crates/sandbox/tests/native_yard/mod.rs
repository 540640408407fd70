//! A yard of native sandboxes in a temporary directory, and a host's eye on it.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "support of tests, which fail by panicking and say what they skip"
)]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::process::{Pid, Signal, kill_process};
use sandyard_sandbox::conformance::Subject;
use sandyard_sandbox::driver::{Driver, OpenError};
use sandyard_sandbox::drivers::native::{LauncherProgram, NativeConfig, NativeDriver, Step};
use sandyard_sandbox::image::{Flavour, ImageStore};

/// What a test can't do without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Root or what an ordinary user needs instead, and a root file system to start.
    Image,
}

/// A yard that cleans up after itself.
pub(crate) struct NativeYard {
    directory: tempfile::TempDir,
    image_root: PathBuf,
}

/// A task as the host sees it.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) uid: u32,
    pub(crate) seccomp: String,
    pub(crate) no_new_privileges: String,
    pub(crate) effective_capabilities: String,
}

impl NativeYard {
    /// Opens a yard, or says why the test is skipped.
    pub(crate) fn open(need: Need) -> Option<Self> {
        let Some(image_root) = image_root() else {
            println!("skipped: needs {need:?}: one built by `sandyard image build base`");
            return None;
        };
        let yard = Self { directory: tempfile::tempdir().unwrap(), image_root };
        match NativeDriver::open(yard.config(None)) {
            Err(OpenError::Unusable { detail, .. }) if !is_root() => {
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

    pub(crate) fn run(&self) -> PathBuf {
        self.directory.path().join("run")
    }

    pub(crate) fn subject(&self) -> Subject {
        let config = self.config(None);
        Subject {
            open: Box::new(move || Arc::new(NativeDriver::open(config.clone()).unwrap()) as Arc<dyn Driver>),
            image_root: self.image_root.clone(),
            workspaces: self.workspaces(),
            disk_in_memory: !is_root(),
        }
    }

    fn workspaces(&self) -> PathBuf {
        self.directory.path().join("workspaces")
    }

    /// Removes every workspace, as whoever made them does in the end.
    pub(crate) fn remove_workspaces(&self) {
        fs::remove_dir_all(self.workspaces()).unwrap();
    }

    pub(crate) fn driver_failing_at(&self, step: Step) -> NativeDriver {
        NativeDriver::open(self.config(Some(step))).unwrap()
    }

    /// The directories a sandbox needs, and no program: enough to come up to the guest.
    pub(crate) fn bare_image(&self) -> tempfile::TempDir {
        let image = tempfile::tempdir_in(self.directory.path()).unwrap();
        fs::set_permissions(image.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for place in ["proc", "dev", "sys", "run", "workspace", "home/agent", "tmp", "var/tmp"] {
            fs::create_dir_all(image.path().join(place)).unwrap();
        }
        image
    }

    fn config(&self, fail_at: Option<Step>) -> NativeConfig {
        let image = self.image_root.clone();
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
            probe_image: Arc::new(move || Some(image.clone())),
            fail_at,
        }
    }

    /// Every control group of this yard, in any hierarchy.
    pub(crate) fn groups(&self) -> BTreeSet<PathBuf> {
        let mut found = BTreeSet::new();
        let names: Vec<String> = self.group_names();
        let root = PathBuf::from("/sys/fs/cgroup");
        for hierarchy in list(&root).into_iter().chain([delegated(&root), root]) {
            for yard in list(&hierarchy).iter().filter(|path| is_named(path, "sandyard-")) {
                found.extend(
                    list(yard).into_iter().filter(|path| names.iter().any(|name| path.ends_with(name))),
                );
            }
        }
        found
    }

    /// The directories that hold this yard's groups, one for each hierarchy. Known only while a sandbox has a marker.
    pub(crate) fn group_homes(&self) -> BTreeSet<PathBuf> {
        self.groups().iter().filter_map(|group| group.parent().map(Path::to_owned)).collect()
    }

    /// Groups named by markers.
    fn group_names(&self) -> Vec<String> {
        list(self.data().join("sandboxes")).iter().filter_map(|marker| record(marker)).collect()
    }

    pub(crate) fn processes_in(&self, group: &Path) -> Vec<i32> {
        let own = |name: &str| fs::read_to_string(group.join(name).join("cgroup.procs")).unwrap_or_default();
        format!("{}{}", own("own"), own("job")).lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Every task of a sandbox.
    pub(crate) fn tasks_of(&self, id: &str) -> Vec<Task> {
        let name = record(&self.data().join("sandboxes").join(id)).unwrap();
        let groups: Vec<_> = self.groups().into_iter().filter(|group| group.ends_with(&name)).collect();
        let pids: BTreeSet<i32> = groups.iter().flat_map(|group| self.processes_in(group)).collect();
        let tasks = pids.iter().flat_map(|pid| list(format!("/proc/{pid}/task")));
        tasks.filter_map(|task| read_task(&task)).collect()
    }

    /// Loop devices that hold a sandbox's disk.
    pub(crate) fn sandbox_disks(&self) -> Vec<String> {
        self.loop_devices_below(&self.workspaces())
    }

    fn loop_devices_below(&self, directory: &Path) -> Vec<String> {
        let backing = |path: &PathBuf| fs::read_to_string(path.join("loop/backing_file")).ok();
        let ours = directory.display().to_string();
        list("/sys/block").iter().filter_map(backing).filter(|file| file.starts_with(&ours)).collect()
    }

    /// Nothing of this yard is left on the host.
    pub(crate) async fn assert_clean(&self) {
        // The kernel frees the disks of parked slots a moment after the last process that held them.
        for _ in 0..200 {
            if self.loop_devices_below(self.directory.path()).is_empty() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        assert_eq!(self.loop_devices_below(self.directory.path()), Vec::<String>::new());
        assert!(!self.data().join("holder.json").exists(), "the yard's namespace is still held");
        assert_eq!(list(self.run()), Vec::<PathBuf>::new());
        assert_eq!(list(self.data().join("sandboxes")), Vec::<PathBuf>::new());
        assert_eq!(self.groups(), BTreeSet::new());
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(&self.directory.path().display().to_string()), "{mounts}");
    }
}

impl Drop for NativeYard {
    /// A failed test leaves its sandboxes running; killing their groups ends them, and the directories go once they are empty.
    fn drop(&mut self) {
        for group in self.groups() {
            let _ = fs::write(group.join("cgroup.kill"), "1");
        }
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

/// Whether sandboxes are root's, with disks, or an ordinary user's, in memory.
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Where an ordinary user's groups are: beside the one this process was moved to.
fn delegated(root: &Path) -> PathBuf {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let path = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    root.join(path).parent().unwrap_or(root).to_owned()
}

/// The newest base image in the cache that the command uses too.
fn image_root() -> Option<PathBuf> {
    let cache = std::env::var_os("SANDYARD_CACHE").unwrap_or_else(|| "/var/cache/sandyard".into());
    let images = ImageStore::new(cache).list().ok()?;
    images.into_iter().rfind(|image| image.flavour == Flavour::Base).map(|image| image.root)
}

fn list(directory: impl AsRef<Path>) -> Vec<PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn is_named(path: &Path, prefix: &str) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix))
}

fn record(marker: &Path) -> Option<String> {
    let text = fs::read_to_string(marker.join("record.json")).ok()?;
    let record: serde_json::Value = serde_json::from_str(&text).ok()?;
    Some(record.get("groups")?.as_str()?.to_owned())
}

fn read_task(task: &Path) -> Option<Task> {
    let status = fs::read_to_string(task.join("status")).ok()?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_whitespace().next().map(str::to_owned)
    };
    Some(Task {
        uid: field("Uid")?.parse().ok()?,
        seccomp: field("Seccomp")?,
        no_new_privileges: field("NoNewPrivs")?,
        effective_capabilities: field("CapEff")?,
    })
}
