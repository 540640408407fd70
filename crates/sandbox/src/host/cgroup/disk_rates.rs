//! Limits of reading and writing the host's disks.
//!
//! One number limits both ways: so many bytes, and operations as if each were 16 KiB, as disks for rent count them. Version 2 charges
//! everything that a job reads or writes to it. Version 1 charges reads alone: the kernel writes for everybody there.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::groups::Groups;
use super::layout::{CgroupVersion, Controller};
use crate::driver::Limits;

const MIB: u64 = 1024 * 1024;
/// Operations of 16 KiB in a mebibyte.
const OPERATIONS_PER_MIB: u64 = 64;
/// The part of a disk that all sandboxes of a yard get when others want it too: each other group has 100.
const YARD_WEIGHT: &str = "50";
/// Files that set a group's part, of each version and scheduler. A host has at most one of them that counts.
const WEIGHT_FILES: [&str; 4] = ["io.weight", "io.bfq.weight", "blkio.bfq.weight", "blkio.weight"];

impl Groups {
    /// Has the host's own programs go before sandboxes where a disk is shared out by weights.
    pub(super) fn weigh_disks(&self) -> io::Result<()> {
        let Some(hierarchy) = self.layout.of(Controller::Io) else { return Ok(()) };
        let yard = self.yard_in(hierarchy);
        WEIGHT_FILES.iter().try_for_each(|file| write_if_there(&yard.join(file), YARD_WEIGHT))
    }

    /// Limits the job on the disk that holds its workspace, if the host has a controller for it and the workspace is on a disk.
    pub(super) fn limit_disk(&self, job: &Limits, workspace: &Path) -> io::Result<()> {
        let (Ok((group, version)), Some(disk)) = (self.at(Controller::Io, "job"), disk_of(workspace)) else {
            return Ok(());
        };
        let bytes = job.io_mib_s.saturating_mul(MIB);
        let operations = job.io_mib_s.saturating_mul(OPERATIONS_PER_MIB);
        match version {
            CgroupVersion::One => {
                [("bps", bytes), ("iops", operations)].into_iter().try_for_each(|(unit, most)| {
                    ["read", "write"].into_iter().try_for_each(|way| {
                        let file = group.join(format!("blkio.throttle.{way}_{unit}_device"));
                        write_if_there(&file, &format!("{disk} {most}"))
                    })
                })
            }
            CgroupVersion::Two => write_if_there(
                &group.join("io.max"),
                &format!("{disk} rbps={bytes} wbps={bytes} riops={operations} wiops={operations}"),
            ),
        }
    }
}

/// Writes a file of a group. A kernel without it, or a disk that knows no limits, has none to set.
fn write_if_there(file: &Path, text: &str) -> io::Result<()> {
    match file.exists().then(|| fs::write(file, text)) {
        Some(Err(error)) if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::EOPNOTSUPP)) => Ok(()),
        written => written.unwrap_or(Ok(())),
    }
}

/// Returns the numbers of the whole disk that holds a path: limits do not hold for a part of one.
fn disk_of(path: &Path) -> Option<String> {
    let device = fs::metadata(path).ok()?.dev();
    whole_disk(device).or_else(|| whole_disk(fs::metadata(source_of(device)?).ok()?.rdev()))
}

fn whole_disk(device: u64) -> Option<String> {
    let found = fs::canonicalize(format!("/sys/dev/block/{}", numbers(device))).ok()?;
    let disk = if found.join("partition").exists() { found.parent()? } else { &found };
    Some(fs::read_to_string(disk.join("dev")).ok()?.trim().to_owned())
}

/// Returns the device of a file system that has numbers of its own, such as btrfs: the source of its mount.
fn source_of(device: u64) -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let numbers = numbers(device);
    let line = mounts.lines().find(|line| line.split(' ').nth(2) == Some(&numbers))?;
    let source = line.split_once(" - ")?.1.split(' ').nth(1)?;
    source.starts_with("/dev/").then(|| source.to_owned())
}

fn numbers(device: u64) -> String {
    format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wherever this runs, a disk that is found is a whole one, and memory is none.
    #[test]
    fn a_disk_is_a_whole_one() {
        if let Some(disk) = disk_of(Path::new("/")) {
            assert!(!Path::new("/sys/dev/block").join(&disk).join("partition").exists(), "{disk}");
        }
        assert_eq!(disk_of(Path::new("/proc")), None);
        assert_eq!(disk_of(Path::new("/no/such/place")), None);
    }
}
