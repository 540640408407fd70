//! Both versions of the interface, on plain directories that stand for mounted hierarchies.

use std::fs;
use std::path::Path;

use super::super::layout::{CgroupLayout, CgroupVersion, Controller, Hierarchy};
use super::{GroupLimits, Groups};
use crate::driver::{Limits, ProcessBounds, Usage};

const LIMITS: Limits = Limits { cpus: 1.5, memory_mib: 64, disk_mib: 1, pids: 10, io_mib_s: 3 };

/// A directory of a hierarchy: where version 2 would show its interface file at once, it is written here.
fn directory(path: &Path) {
    fs::create_dir_all(path).unwrap();
    fs::write(path.join("cgroup.subtree_control"), "").unwrap();
}

fn unified(root: &Path) -> CgroupLayout {
    for path in ["", "sandyard-y", "sandyard-y/s"] {
        directory(&root.join(path));
    }
    let controllers = vec![
        Controller::Memory,
        Controller::Cpu,
        Controller::CpuAccounting,
        Controller::Pids,
        Controller::Io,
    ];
    CgroupLayout {
        hierarchies: vec![Hierarchy { root: root.to_owned(), version: CgroupVersion::Two, controllers }],
        others: Vec::new(),
    }
}

fn version_1(root: &Path) -> CgroupLayout {
    let hierarchy = |name: &str, controllers| {
        fs::create_dir_all(root.join(name)).unwrap();
        Hierarchy { root: root.join(name), version: CgroupVersion::One, controllers }
    };
    let cpu = hierarchy("cpu,cpuacct", vec![Controller::Cpu, Controller::CpuAccounting]);
    let memory = hierarchy("memory", vec![Controller::Memory]);
    CgroupLayout {
        hierarchies: vec![
            cpu,
            memory,
            hierarchy("pids", vec![Controller::Pids]),
            hierarchy("blkio", vec![Controller::Io]),
        ],
        others: Vec::new(),
    }
}

fn read(root: &Path, path: &str) -> String {
    fs::read_to_string(root.join(path)).unwrap()
}

#[test]
fn version_2_limits_both_groups_and_kills_the_parent() {
    let root = tempfile::tempdir().unwrap();
    let groups = Groups::new(&unified(root.path()), "y", "s");
    groups.create().unwrap();
    groups.limit(GroupLimits { job: LIMITS, disk_in_memory_mib: 0, workspace: Path::new("/") }).unwrap();
    assert_eq!(read(root.path(), "cgroup.subtree_control"), "+cpu +memory +pids");
    assert_eq!(read(root.path(), "sandyard-y/s/cgroup.subtree_control"), "+cpu +memory +pids");
    assert_eq!(read(root.path(), "sandyard-y/s/job/memory.max"), "67108864");
    assert_eq!(read(root.path(), "sandyard-y/s/job/cpu.max"), "150000 100000");
    assert_eq!(read(root.path(), "sandyard-y/s/job/pids.max"), "12");
    assert!(root.path().join("sandyard-y/s/own/memory.max").exists());
    assert!(!root.path().join("sandyard-y/s/own/cpu.max").exists());
    groups.kill().unwrap();
    assert_eq!(read(root.path(), "sandyard-y/s/cgroup.kill"), "1");
}

/// However many were asked for, one job can't take all numbers that the kernel has for processes, nor can all jobs together.
#[test]
fn processes_are_bounded_by_the_host_and_by_groups_above() {
    let root = tempfile::tempdir().unwrap();
    let (asked, delegated) = (Limits { pids: u64::MAX, ..LIMITS }, root.path().join("delegated"));
    let groups = Groups::new(&unified(&delegated), "y", "s");
    let read_number = |path: &str| read(&delegated, path).parse::<u64>().unwrap();
    groups.create().unwrap();
    groups.limit(GroupLimits { job: asked, disk_in_memory_mib: 0, workspace: Path::new("/") }).unwrap();
    let host = ProcessBounds::of_host();
    assert_eq!(read_number("sandyard-y/pids.max"), host.together);
    assert_eq!(read_number("sandyard-y/s/job/pids.max"), host.one_job + 2);
    fs::write(root.path().join("pids.max"), "400\n").unwrap();
    fs::write(delegated.join("pids.max"), "max\n").unwrap();
    groups.create().unwrap();
    groups.limit(GroupLimits { job: asked, disk_in_memory_mib: 0, workspace: Path::new("/") }).unwrap();
    assert_eq!((read_number("sandyard-y/pids.max"), read_number("sandyard-y/s/job/pids.max")), (300, 77));
}

/// What a job reads and writes is limited in bytes and in operations where the host can do that, and sandboxes start where it can't.
#[test]
fn disks_are_limited_where_the_host_can() {
    let root = tempfile::tempdir().unwrap();
    let limits = GroupLimits { job: LIMITS, disk_in_memory_mib: 0, workspace: Path::new("/") };
    let disk = |text: &str| text.split(' ').next().unwrap().contains(':');
    let two = Groups::new(&unified(&root.path().join("two")), "y", "s");
    fs::write(root.path().join("two/cgroup.controllers"), "cpu io memory pids\n").unwrap();
    two.create().unwrap();
    assert_eq!(read(root.path(), "two/cgroup.subtree_control"), "+cpu +memory +pids +io");
    two.limit(limits).unwrap();
    assert!(!root.path().join("two/sandyard-y/s/job/io.max").exists());
    fs::write(root.path().join("two/sandyard-y/io.weight"), "").unwrap();
    fs::write(root.path().join("two/sandyard-y/s/job/io.max"), "").unwrap();
    two.create().unwrap();
    two.limit(limits).unwrap();
    assert_eq!(read(root.path(), "two/sandyard-y/io.weight"), "50");
    let set = read(root.path(), "two/sandyard-y/s/job/io.max");
    assert!(disk(&set) && set.ends_with(" rbps=3145728 wbps=3145728 riops=192 wiops=192"), "{set}");
    let one = Groups::new(&version_1(&root.path().join("one")), "y", "s");
    one.create().unwrap();
    let job = root.path().join("one/blkio/sandyard-y/s/job");
    let files = ["read_bps", "write_bps", "read_iops", "write_iops"];
    for name in files {
        fs::write(job.join(format!("blkio.throttle.{name}_device")), "").unwrap();
    }
    one.limit(limits).unwrap();
    for (name, most) in files.into_iter().zip([" 3145728", " 3145728", " 192", " 192"]) {
        let set = read(&job, &format!("blkio.throttle.{name}_device"));
        assert!(disk(&set) && set.ends_with(most), "{name}: {set}");
    }
}

#[test]
fn version_2_leaves_enabled_controllers_alone() {
    let root = tempfile::tempdir().unwrap();
    let layout = unified(root.path());
    fs::write(root.path().join("cgroup.subtree_control"), "cpuset cpu io memory pids\n").unwrap();
    Groups::new(&layout, "y", "s").create().unwrap();
    assert_eq!(read(root.path(), "cgroup.subtree_control"), "cpuset cpu io memory pids\n");
}

#[test]
fn version_2_counts() {
    let root = tempfile::tempdir().unwrap();
    let groups = Groups::new(&unified(root.path()), "y", "s");
    groups.create().unwrap();
    let job = root.path().join("sandyard-y/s/job");
    fs::write(job.join("cpu.stat"), "usage_usec 2500000\nuser_usec 1\n").unwrap();
    fs::write(job.join("memory.peak"), "4096\n").unwrap();
    fs::write(job.join("memory.events"), "low 0\nmax 9\noom 3\noom_kill 2\noom_group_kill 7\n").unwrap();
    fs::write(job.join("pids.events"), "max 5\n").unwrap();
    let expected =
        Usage { cpu_s: 2.5, memory_bytes: None, peak_memory_bytes: 4096, memory_kills: 2, pids_refused: 5 };
    assert_eq!(groups.usage().unwrap(), expected);
}

#[test]
fn version_1_limits_and_counts_in_each_hierarchy() {
    let root = tempfile::tempdir().unwrap();
    let groups = Groups::new(&version_1(root.path()), "y", "s");
    groups.create().unwrap();
    let memory = root.path().join("memory/sandyard-y/s/job");
    // As the kernel shows a group without a limit.
    fs::write(memory.join("memory.memsw.limit_in_bytes"), "9223372036854771712\n").unwrap();
    fs::write(memory.join("memory.kmem.tcp.limit_in_bytes"), "").unwrap();
    groups.limit(GroupLimits { job: LIMITS, disk_in_memory_mib: 0, workspace: Path::new("/") }).unwrap();
    assert_eq!(read(&memory, "memory.limit_in_bytes"), "67108864");
    assert_eq!(read(&memory, "memory.memsw.limit_in_bytes"), "67108864");
    assert_eq!(read(&memory, "memory.kmem.tcp.limit_in_bytes"), "67108864");
    assert_eq!(read(root.path(), "cpu,cpuacct/sandyard-y/s/job/cpu.cfs_quota_us"), "150000");
    fs::write(root.path().join("cpu,cpuacct/sandyard-y/s/job/cpuacct.usage"), "1500000000\n").unwrap();
    fs::write(memory.join("memory.max_usage_in_bytes"), "8192\n").unwrap();
    fs::write(memory.join("memory.oom_control"), "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n").unwrap();
    fs::write(root.path().join("pids/sandyard-y/s/job/pids.events"), "max 4\n").unwrap();
    let expected =
        Usage { cpu_s: 1.5, memory_bytes: None, peak_memory_bytes: 8192, memory_kills: 3, pids_refused: 4 };
    assert_eq!(groups.usage().unwrap(), expected);
}

#[test]
fn our_own_processes_stay_out_of_the_jobs_share_of_processors() {
    let root = tempfile::tempdir().unwrap();
    let (own, job) = Groups::new(&version_1(root.path()), "y", "s").entrances();
    assert_eq!((own.len(), job.len()), (2, 4));
    assert!(own.iter().all(|path| !path.starts_with(root.path().join("cpu,cpuacct"))));
    assert!(job.iter().all(|path| path.ends_with("sandyard-y/s/job/cgroup.procs")));
}

#[test]
fn removing_is_idempotent_and_names_are_found() {
    let root = tempfile::tempdir().unwrap();
    let layout = version_1(root.path());
    let groups = Groups::new(&layout, "y", "s");
    groups.create().unwrap();
    assert_eq!(Groups::all_names(&layout, "y").unwrap().into_iter().collect::<Vec<_>>(), ["s"]);
    groups.remove().unwrap();
    groups.remove().unwrap();
    assert!(Groups::all_names(&layout, "y").unwrap().is_empty());
    assert!(groups.processes().unwrap().is_empty());
}

/// What is written to a disk in memory is charged to the job, which would otherwise be killed for it.
#[test]
fn a_disk_in_memory_comes_on_top_of_the_jobs_memory() {
    let root = tempfile::tempdir().unwrap();
    let groups = Groups::new(&unified(root.path()), "y", "s");
    groups.create().unwrap();
    groups.limit(GroupLimits { job: LIMITS, disk_in_memory_mib: 32, workspace: Path::new("/") }).unwrap();
    assert_eq!(read(root.path(), "sandyard-y/s/job/memory.max"), (96 * 1024 * 1024).to_string());
}

#[test]
fn whoever_leaves_goes_to_the_hosts_group_where_there_is_one() {
    let root = tempfile::tempdir().unwrap();
    let groups = Groups::new(&CgroupLayout::delegated(root.path().to_owned()), "y", "s");
    assert_eq!(groups.refuges(), [root.path().join("cgroup.procs")]);
    directory(&root.path().join("sandyard-host"));
    assert_eq!(groups.refuges(), [root.path().join("sandyard-host/cgroup.procs")]);
}
