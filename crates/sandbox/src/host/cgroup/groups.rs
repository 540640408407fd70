//! The groups of one sandbox in every hierarchy: make, limit, list, kill, remove.
//!
//! Everything is idempotent and works from names alone, so a restarted driver can remove groups that another process made.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use sandyard_protocol::JobLimits;

use super::layout::{CgroupLayout, CgroupVersion, Controller, Hierarchy};
use crate::driver::{Limits, ProcessBounds};

/// Memory of init and keeper: their spool of 128 MiB and as much again for themselves.
pub(crate) const OWN_MEMORY_BYTES: u64 = 256 * 1024 * 1024;
/// Processes and threads of init and keeper, which have a handful.
pub(crate) const OWN_PIDS: u64 = 64;
/// Processes the spawner needs beside the job's own, so that a full job can still be ended in an orderly way.
const JOB_SPARE_PIDS: u64 = 2;

/// Limits of the two groups of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct GroupLimits<'a> {
    pub(crate) job: Limits,
    /// Size of the disk if it is in memory. The kernel charges it to the writing process, so it is added to the job's memory.
    pub(crate) disk_in_memory_mib: u64,
    /// Directory of the disk, by which the limits of reads and writes know the host's disk.
    pub(crate) workspace: &'a Path,
}

/// The groups of one sandbox.
#[derive(Debug, Clone)]
pub(crate) struct Groups {
    pub(super) layout: CgroupLayout,
    yard: String,
    name: String,
}

impl Groups {
    /// Names the groups; makes nothing.
    pub(crate) fn new(layout: &CgroupLayout, yard: &str, name: &str) -> Self {
        Self { layout: layout.clone(), yard: yard_directory(yard), name: name.to_owned() }
    }

    /// Returns the name given to `new`.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Makes both groups in every hierarchy, and bounds the processes of all sandboxes of the yard together.
    pub(crate) fn create(&self) -> io::Result<()> {
        for hierarchy in &self.layout.hierarchies {
            let yard = self.yard_in(hierarchy);
            let sandbox = yard.join(&self.name);
            make(&yard)?;
            make(&sandbox)?;
            if hierarchy.version == CgroupVersion::Two && !hierarchy.controllers.is_empty() {
                // From the top down: a group can share out only controllers that its parent gives it.
                for parent in [&hierarchy.root, &yard, &sandbox] {
                    enable_controllers(parent)?;
                }
            }
            if hierarchy.has_own() {
                make(&sandbox.join("own"))?;
            }
            make(&sandbox.join("job"))?;
        }
        self.weigh_disks()?;
        let hierarchy = self.layout.of(Controller::Pids).ok_or(io::ErrorKind::NotFound)?;
        let most = self.process_bounds().together;
        fs::write(self.yard_in(hierarchy).join("pids.max"), most.to_string())
    }

    /// Sets the limits of both groups, which may already hold processes.
    pub(crate) fn limit(&self, limits: GroupLimits<'_>) -> io::Result<()> {
        let job = limits.job;
        self.limit_memory("own", OWN_MEMORY_BYTES)?;
        self.limit_pids("own", OWN_PIDS)?;
        let memory_mib = job.memory_mib.saturating_add(limits.disk_in_memory_mib);
        self.limit_memory("job", memory_mib.saturating_mul(1024 * 1024))?;
        // No job gets so many that others could not fork, whatever it was promised.
        let pids = job.pids.min(self.process_bounds().one_job);
        self.limit_pids("job", pids.saturating_add(JOB_SPARE_PIDS))?;
        self.limit_disk(&job, limits.workspace)?;
        self.limit_cpu("job", job.cpu_quota_us())
    }

    fn limit_memory(&self, group: &str, bytes: u64) -> io::Result<()> {
        let (directory, version) = self.at(Controller::Memory, group)?;
        match version {
            CgroupVersion::One => {
                let with_swap = directory.join("memory.memsw.limit_in_bytes");
                let swap_counts = with_swap.exists();
                // The kernel refuses a limit with swap that is below the one without, at every moment. So the former is
                // written first when both rise, and last when both fall.
                let rises = swap_counts && read_number(&with_swap)? < bytes;
                if rises {
                    fs::write(&with_swap, bytes.to_string())?;
                }
                fs::write(directory.join("memory.limit_in_bytes"), bytes.to_string())?;
                // Version 1 counts buffers of TCP apart. Without this limit a job could fill those of the
                // whole host.
                let of_tcp = directory.join("memory.kmem.tcp.limit_in_bytes");
                if of_tcp.exists() {
                    fs::write(of_tcp, bytes.to_string())?;
                }
                // Without this limit the job could use swap on top of its memory.
                if swap_counts && !rises { fs::write(with_swap, bytes.to_string()) } else { Ok(()) }
            }
            CgroupVersion::Two => {
                fs::write(directory.join("memory.max"), bytes.to_string())?;
                let swap = directory.join("memory.swap.max");
                if swap.exists() { fs::write(swap, "0") } else { Ok(()) }
            }
        }
    }

    /// Returns the bounds of the host, or of a group above those of sandboxes that has a limit of its own: a service's, a user's.
    fn process_bounds(&self) -> ProcessBounds {
        let root =
            self.layout.of(Controller::Pids).map(|hierarchy| hierarchy.root.clone()).unwrap_or_default();
        // A group without a limit says `max`.
        let above = root.ancestors().filter_map(|group| read_number(&group.join("pids.max")).ok()).min();
        let host = ProcessBounds::of_host();
        above.map_or(host, |above| ProcessBounds::within(above.min(host.host)))
    }

    fn limit_pids(&self, group: &str, most: u64) -> io::Result<()> {
        let (directory, _) = self.at(Controller::Pids, group)?;
        fs::write(directory.join("pids.max"), most.to_string())
    }

    fn limit_cpu(&self, group: &str, quota_us: u64) -> io::Result<()> {
        let (directory, version) = self.at(Controller::Cpu, group)?;
        match version {
            CgroupVersion::One => {
                fs::write(directory.join("cpu.cfs_period_us"), JobLimits::PERIOD_US.to_string())?;
                fs::write(directory.join("cpu.cfs_quota_us"), quota_us.to_string())
            }
            CgroupVersion::Two => {
                fs::write(directory.join("cpu.max"), format!("{quota_us} {}", JobLimits::PERIOD_US))
            }
        }
    }

    /// Returns the files through which processes enter the groups: our own first, the job's second.
    pub(crate) fn entrances(&self) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let entrance =
            |hierarchy: &Hierarchy, group: &str| self.directory(hierarchy).join(group).join("cgroup.procs");
        let all = &self.layout.hierarchies;
        let own = all.iter().filter(|one| one.has_own()).map(|one| entrance(one, "own")).collect();
        (own, all.iter().map(|one| entrance(one, "job")).collect())
    }

    /// Moves a kernel thread into the job's group, so that its processor time is counted and limited with the job's. Ignores a
    /// thread that has ended.
    pub(crate) fn take_in(&self, thread: i32) -> io::Result<()> {
        let (directory, _) = self.at(Controller::Cpu, "job")?;
        match fs::write(directory.join("cgroup.procs"), thread.to_string()) {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
            written => written,
        }
    }

    /// Allows a host user in the own group to move its processes into the job's group.
    pub(crate) fn open_job_to(&self, user: u32) -> io::Result<()> {
        for hierarchy in &self.layout.hierarchies {
            let sandbox = self.directory(hierarchy);
            chown(sandbox.join("job/cgroup.procs"), Some(user), Some(user))?;
            // Version 2 also requires the right to write to the common parent of both groups.
            if hierarchy.version == CgroupVersion::Two {
                chown(sandbox.join("cgroup.procs"), Some(user), Some(user))?;
            }
        }
        Ok(())
    }

    /// Returns the path of our own group below the root of each hierarchy.
    pub(crate) fn own_path(&self) -> String {
        format!("/{}/{}/own", self.yard, self.name)
    }

    /// Returns the files through which processes leave the job's groups, in the order of `entrances`.
    pub(crate) fn refuges(&self) -> Vec<PathBuf> {
        self.layout.hierarchies.iter().map(|one| one.refuge().join("cgroup.procs")).collect()
    }

    /// Kills every process in the groups. With a unified hierarchy that is one atomic step. Without one, a process that forks
    /// faster than this loop reads is killed by the next call.
    pub(crate) fn kill(&self) -> io::Result<()> {
        if let Some(unified) = self.layout.unified() {
            let file = self.directory(unified).join("cgroup.kill");
            match fs::write(file, "1") {
                Ok(()) => return Ok(()),
                // The group is gone, or the kernel is older than 5.14 and has no such file.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        for pid in self.processes()? {
            if let Some(pid) = rustix::process::Pid::from_raw(pid) {
                // The process may have ended since.
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
        Ok(())
    }

    /// Returns the processes in any of the groups.
    pub(crate) fn processes(&self) -> io::Result<BTreeSet<i32>> {
        let mut pids = BTreeSet::new();
        for hierarchy in &self.layout.hierarchies {
            for group in ["own", "job"] {
                let file = self.directory(hierarchy).join(group).join("cgroup.procs");
                let text = match fs::read_to_string(file) {
                    Ok(text) => text,
                    // ENODEV: removed between open and read.
                    Err(error) if is_gone(&error) => continue,
                    Err(error) => return Err(error),
                };
                pids.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()));
            }
        }
        Ok(pids)
    }

    /// Removes the groups, which must be empty. A group that does not exist is no error.
    pub(crate) fn remove(&self) -> io::Result<()> {
        for root in self.layout.roots() {
            let sandbox = root.join(&self.yard).join(&self.name);
            // Children first: the kernel refuses to remove a group that has one.
            for directory in [sandbox.join("own"), sandbox.join("job"), sandbox] {
                match fs::remove_dir(&directory) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Returns the names of all groups of a yard in any hierarchy.
    pub(crate) fn all_names(layout: &CgroupLayout, yard: &str) -> io::Result<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        for root in layout.roots() {
            let entries = match fs::read_dir(root.join(yard_directory(yard))) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            for entry in entries {
                let entry = entry?;
                if entry.file_type()?.is_dir() {
                    names.extend(entry.file_name().into_string().ok());
                }
            }
        }
        Ok(names)
    }

    /// Removes the yard's own directory in each hierarchy if nothing is in it.
    pub(crate) fn remove_yard(layout: &CgroupLayout, yard: &str) {
        for root in layout.roots() {
            // Fails if a sandbox remains or another call was faster; both are fine.
            let _ = fs::remove_dir(root.join(yard_directory(yard)));
        }
    }

    /// Returns the directory of a group in the hierarchy of a controller.
    pub(super) fn at(&self, controller: Controller, group: &str) -> io::Result<(PathBuf, CgroupVersion)> {
        let hierarchy = self.layout.of(controller).ok_or(io::ErrorKind::NotFound)?;
        Ok((self.directory(hierarchy).join(group), hierarchy.version))
    }

    /// Returns the directory that holds the groups of all sandboxes of the yard.
    pub(super) fn yard_in(&self, hierarchy: &Hierarchy) -> PathBuf {
        hierarchy.root.join(&self.yard)
    }

    fn directory(&self, hierarchy: &Hierarchy) -> PathBuf {
        self.yard_in(hierarchy).join(&self.name)
    }
}

pub(super) fn yard_directory(yard: &str) -> String {
    format!("sandyard-{yard}")
}

fn read_number(file: &Path) -> io::Result<u64> {
    fs::read_to_string(file)?.trim().parse().map_err(io::Error::other)
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ENODEV)
}

fn make(directory: &Path) -> io::Result<()> {
    match fs::create_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// Lets children of a version 2 group be limited. Writes only if needed: the root may belong to another
/// manager.
pub(super) fn enable_controllers(directory: &Path) -> io::Result<()> {
    let file = directory.join("cgroup.subtree_control");
    let enabled = fs::read_to_string(&file)?;
    let has = |name: &&str| enabled.split_whitespace().any(|word| word == *name);
    // Limits of disks only where the host gives them away: an ordinary user may not get them.
    let available = fs::read_to_string(directory.join("cgroup.controllers")).unwrap_or_default();
    let disks = available.split_whitespace().find(|name| *name == "io");
    let missing: Vec<_> =
        ["cpu", "memory", "pids"].into_iter().chain(disks).filter(|name| !has(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    fs::write(file, missing.iter().map(|name| format!("+{name}")).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
#[path = "groups_tests.rs"]
mod tests;
