//! The host's view of sandboxes that have control groups there: tasks, groups, loop devices, images.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "support of tests, which fail by panicking and say what they skip"
)]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use sandyard_conformance::{DriverSubject, SandboxSession};
use sandyard_sandbox::driver::Limits;
use sandyard_sandbox::image::{ImageFlavour, ImageStore};

/// A task as the host sees it.
#[derive(Debug)]
struct Task {
    uid: u32,
    seccomp: String,
    no_new_privileges: String,
    effective_capabilities: String,
}

/// The newest base image in the cache that the command uses too.
pub(crate) fn image_root() -> Option<PathBuf> {
    let cache = std::env::var_os("SANDYARD_CACHE").unwrap_or_else(|| "/var/cache/sandyard".into());
    let images = ImageStore::new(cache).list().ok()?;
    images.into_iter().rfind(|image| image.flavour == ImageFlavour::Base).map(|image| image.root)
}

/// The directories a sandbox needs, and no program: enough to come up to the guest.
pub(crate) fn bare_image(within: &Path) -> tempfile::TempDir {
    let image = tempfile::tempdir_in(within).unwrap();
    fs::set_permissions(image.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for place in ["proc", "dev", "sys", "run", "workspace", "home/agent", "tmp", "var/tmp"] {
        fs::create_dir_all(image.path().join(place)).unwrap();
    }
    image
}

/// K3: a program of root's that an image marks to run as its owner runs as the job all the same.
pub(crate) async fn assert_set_user_id_means_nothing(subject: &DriverSubject, within: &Path) {
    let image = bare_image(within);
    let planted = image.path().join("planted");
    fs::copy(sandyard_conformance::probe_program(), &planted).unwrap();
    fs::set_permissions(&planted, std::os::unix::fs::PermissionsExt::from_mode(0o6755)).unwrap();
    let mut spec = subject.spec("planted-1", Limits::default()).unwrap();
    spec.image = subject.images.add(image.path());
    let session = SandboxSession::start((subject.open)(), spec).await.unwrap();
    let ran = session.run(&["/planted", "who"]).await.unwrap();
    assert_eq!(ran.stdout, "1000 1000 1000 1000\n", "{ran:?}");
    session.stop().await.unwrap();
}

/// Every control group that a marker of the driver in `data` names, in any hierarchy.
pub(crate) fn groups(data: &Path) -> BTreeSet<PathBuf> {
    let names: Vec<String> =
        list(data.join("sandboxes")).iter().filter_map(|marker| record(marker)).collect();
    let root = PathBuf::from("/sys/fs/cgroup");
    let mut found = BTreeSet::new();
    for hierarchy in list(&root).into_iter().chain([delegated(&root), root]) {
        for yard in list(&hierarchy).iter().filter(|path| is_named(path, "sandyard-")) {
            found.extend(list(yard).into_iter().filter(|path| names.iter().any(|name| path.ends_with(name))));
        }
    }
    found
}

/// The directories that hold those groups, one for each hierarchy. Known only while a sandbox has a marker.
pub(crate) fn group_homes(data: &Path) -> BTreeSet<PathBuf> {
    groups(data).iter().filter_map(|group| group.parent().map(Path::to_owned)).collect()
}

/// Returns the processes in a group.
pub(crate) fn processes_in(group: &Path) -> Vec<i32> {
    let own = |name: &str| fs::read_to_string(group.join(name).join("cgroup.procs")).unwrap_or_default();
    format!("{}{}", own("own"), own("job")).lines().filter_map(|line| line.parse().ok()).collect()
}

/// Kills processes that a failed test left. The directories go once they are empty.
pub(crate) fn kill_groups(data: &Path) {
    for group in groups(data) {
        let _ = fs::write(group.join("cgroup.kill"), "1");
    }
}

/// Files below a directory that are behind loop devices.
pub(crate) fn loop_devices_below(directory: &Path) -> Vec<String> {
    let backing = |path: &PathBuf| fs::read_to_string(path.join("loop/backing_file")).ok();
    let ours = directory.display().to_string();
    list("/sys/block").iter().filter_map(backing).filter(|file| file.starts_with(&ours)).collect()
}

/// No loop device, mount, link, marker or group of a driver is left on the host.
pub(crate) async fn assert_clean(home: &Path, data: &Path, run: &Path) {
    // The kernel frees disks a moment after the last process that held them.
    for _ in 0..200 {
        if loop_devices_below(home).is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(loop_devices_below(home), Vec::<String>::new());
    assert_eq!(list(run), Vec::<PathBuf>::new());
    assert_eq!(list(data.join("sandboxes")), Vec::<PathBuf>::new());
    assert_eq!(groups(data), BTreeSet::new());
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(&home.display().to_string()), "{mounts}");
}

/// K2, K7 and R16: no task of a sandbox is root on the host, every one is filtered, and two sandboxes share no user.
pub(crate) async fn assert_every_task_is_confined(subject: &DriverSubject, data: &Path) {
    let start = async |name| {
        SandboxSession::start((subject.open)(), subject.spec(name, Limits::default()).unwrap()).await.unwrap()
    };
    let (one, two) = (start("task-1").await, start("task-2").await);
    // The threads wait until they have been looked at, however slow the machine is.
    let threads = "import os,threading,time\ndef wait():\n while not os.path.exists('seen'): time.sleep(0.02)\n\
                   for _ in range(3): threading.Thread(target=wait).start()";
    let command = ["python3", "-c", threads];
    let look = async {
        let mut tasks = tasks_of(data, "task-1");
        for _ in 0..600 {
            if tasks.len() >= 7 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            tasks = tasks_of(data, "task-1");
        }
        one.upload("seen", b"").await.unwrap();
        tasks
    };
    let (first, ran) = tokio::join!(look, one.run(&command));
    assert_eq!(ran.unwrap().exit.code, 0);
    let other = tasks_of(data, "task-2");
    assert!(first.len() >= 5, "{first:?}");
    for task in first.iter().chain(&other) {
        assert!(task.uid >= 65_536 && task.seccomp == "2" && task.no_new_privileges == "1", "{task:?}");
        assert_eq!(task.effective_capabilities, "0000000000000000", "{task:?}");
    }
    assert!(first.iter().all(|task| other.iter().all(|other| task.uid != other.uid)));
    one.stop().await.unwrap();
    two.stop().await.unwrap();
}

/// R23: the processes of a job, and of all jobs together, are fewer than the host's kernel can have, whatever was asked for.
pub(crate) async fn assert_processes_are_bounded(subject: &DriverSubject, data: &Path) {
    let asked = Limits { pids: 4 * 1024 * 1024, ..Limits::default() };
    let driver = (subject.open)();
    let spec = subject.spec("bounded-1", asked).unwrap();
    driver.start(&spec).await.unwrap();
    let read = |path: PathBuf| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let host = ["pid_max", "threads-max"].map(|name| read(Path::new("/proc/sys/kernel").join(name)).unwrap());
    let bounds: Vec<_> = groups(data)
        .iter()
        .filter_map(|group| {
            Some((read(group.parent()?.join("pids.max"))?, read(group.join("job/pids.max"))?))
        })
        .collect();
    assert_eq!(bounds.len(), 1, "{bounds:?}");
    let (together, one) = bounds[0];
    assert!(
        host.iter().all(|most| together <= most / 4 * 3) && one <= together / 4 + 2,
        "{bounds:?} of {host:?}"
    );
    driver.stop(&spec.id).await.unwrap();
}

/// R25: a job reads and writes the host's disk no faster than its limit. The host forgets the job's disk first, or nothing would be read.
pub(crate) async fn assert_disks_are_limited(subject: &DriverSubject, data: &Path) {
    const MOVED_MIB: u64 = 16;
    let device = subject.workspaces.ancestors().find_map(|path| fs::metadata(path).ok()).unwrap().dev();
    let numbers = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    if subject.disk_in_memory || !Path::new("/sys/dev/block").join(numbers).exists() {
        return println!("no disk to limit: the workspace is in memory");
    }
    let limits = Limits { io_mib_s: 4, ..Limits::default() };
    let session =
        SandboxSession::start((subject.open)(), subject.spec("rated-1", limits).unwrap()).await.unwrap();
    let files = ["job/io.max", "job/blkio.throttle.read_bps_device"];
    let set: Vec<_> = groups(data)
        .iter()
        .flat_map(|group| files.map(|file| fs::read_to_string(group.join(file)).unwrap_or_default()))
        .collect();
    if !set.iter().any(|text| text.contains("4194304")) {
        println!("skipped: needs a controller that limits reads: {set:?}");
        return session.stop().await.unwrap();
    }
    // Four seconds by the limit, and no less than half of that. A slow host takes longer.
    let shortest = Duration::from_secs(MOVED_MIB / 4 / 2);
    let write = format!("head -c {MOVED_MIB}M /dev/urandom > kept && sync kept");
    let began = Instant::now();
    assert_eq!(session.shell(&write).await.unwrap().exit.code, 0);
    // Version 1 of control groups does not know whose data the kernel writes.
    let counts_writes = set.iter().any(|text| text.contains("wbps=4194304"));
    assert!(!counts_writes || began.elapsed() >= shortest, "{:?} {set:?}", began.elapsed());
    for disk in list(&session.spec.workspace) {
        let input = format!("if={}", disk.display());
        let forgotten = Command::new("dd").args([&input, "iflag=nocache", "count=0"]).output().unwrap();
        assert!(forgotten.status.success(), "{forgotten:?}");
    }
    let began = Instant::now();
    let ran = session.shell("dd if=kept of=/dev/null bs=1M iflag=direct").await.unwrap();
    assert_eq!(ran.exit.code, 0, "{ran:?}");
    assert!(began.elapsed() >= shortest, "{:?} {ran:?} {set:?}", began.elapsed());
    session.stop().await.unwrap();
}

/// Every task of a sandbox.
fn tasks_of(data: &Path, id: &str) -> Vec<Task> {
    let name = record(&data.join("sandboxes").join(id)).unwrap();
    let groups: Vec<_> = groups(data).into_iter().filter(|group| group.ends_with(&name)).collect();
    let pids: BTreeSet<i32> = groups.iter().flat_map(|group| processes_in(group)).collect();
    let tasks = pids.iter().flat_map(|pid| list(format!("/proc/{pid}/task")));
    tasks.filter_map(|task| read_task(&task)).collect()
}

/// Returns the directory of an ordinary user's groups: beside the group this process was moved to.
fn delegated(root: &Path) -> PathBuf {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let path = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    root.join(path).parent().unwrap_or(root).to_owned()
}

fn record(marker: &Path) -> Option<String> {
    let text = fs::read_to_string(marker.join("record.json")).ok()?;
    let record: serde_json::Value = serde_json::from_str(&text).ok()?;
    Some(record.get("groups")?.as_str()?.to_owned())
}

fn is_named(path: &Path, prefix: &str) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix))
}

/// Returns the entries of a directory.
pub(crate) fn list(directory: impl AsRef<Path>) -> Vec<PathBuf> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
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
