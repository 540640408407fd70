//! Control groups inside the machine: one for the job with its limits. Sandyard's own processes stay in the root group.
//!
//! The job runs out of its group before the machine runs out of anything, so it is the job that is killed or refused.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, mount};
use sandyard_protocol::{JobLimits, JobUsage, MACHINE_GROUPS};

use super::tree::inside;
use crate::boot::{BootFailure, BootStep as _};

const STAGE: &str = "control groups";
/// The longest of the files that are read.
const COUNTER_BYTES: usize = 4096;

/// The open counters of the job's group. They are opened with privilege and read without it.
pub(super) struct GroupCounters {
    cpu: File,
    peak_memory: Option<File>,
    memory_events: File,
    pids_events: File,
}

/// Makes the job's group below the tree that becomes the root.
pub(super) fn prepare(limits: &JobLimits) -> Result<GroupCounters, BootFailure> {
    let root = inside(MACHINE_GROUPS);
    fs::create_dir_all(&root).step(STAGE, root.display())?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("cgroup2", &root, "cgroup2", flags, None).step(STAGE, "mount")?;
    write(&root, "cgroup.subtree_control", "+cpu +memory +pids")?;
    let job = root.join("job");
    fs::create_dir(&job).step(STAGE, job.display())?;
    // All limits are set before any process is in the group.
    write(&job, "memory.max", &limits.memory_bytes.to_string())?;
    write(&job, "pids.max", &limits.pids.to_string())?;
    write(&job, "cpu.max", &format!("{} {}", limits.cpu_quota_us, JobLimits::PERIOD_US))?;
    let open = |name: &str| File::open(job.join(name)).step(STAGE, format_args!("open {name}"));
    Ok(GroupCounters {
        cpu: open("cpu.stat")?,
        // Kernels before 5.19 keep no peak.
        peak_memory: File::open(job.join("memory.peak")).ok(),
        memory_events: open("memory.events")?,
        pids_events: open("pids.events")?,
    })
}

fn write(group: &Path, name: &str, value: &str) -> Result<(), BootFailure> {
    let path: PathBuf = group.join(name);
    fs::write(&path, value).step(STAGE, format_args!("{name} = {value}"))
}

impl GroupCounters {
    /// The resources that the job has used so far.
    pub(super) fn read(&self) -> io::Result<JobUsage> {
        let peak = self.peak_memory.as_ref().map(text).transpose()?.unwrap_or_default();
        Ok(JobUsage {
            cpu_us: field(&text(&self.cpu)?, "usage_usec"),
            peak_memory_bytes: peak.trim().parse().unwrap_or(0),
            memory_kills: field(&text(&self.memory_events)?, "oom_kill"),
            pids_refused: field(&text(&self.pids_events)?, "max"),
        })
    }
}

fn text(file: &File) -> io::Result<String> {
    let mut bytes = [0; COUNTER_BYTES];
    let length = file.read_at(&mut bytes, 0)?;
    Ok(String::from_utf8_lossy(bytes.get(..length).unwrap_or_default()).into_owned())
}

/// The number of a line `name number`; zero if there is none.
fn field(text: &str, name: &str) -> u64 {
    let value = |line: &str| {
        let (found, value) = line.split_once(' ')?;
        (found == name).then(|| value.trim().parse().ok())?
    };
    text.lines().find_map(value).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "low 1\noom 2\noom_kill 3\noom_group_kill 4\n";
        assert_eq!((field(text, "oom"), field(text, "oom_kill"), field(text, "max")), (2, 3, 0));
    }
}
