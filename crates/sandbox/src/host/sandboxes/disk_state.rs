//! Whether a sandbox can still write to its disk, as the kernel of this host sees it.
//!
//! A disk image on a full file system loses writes, and ext4 then stops to write for good: programs in the
//! sandbox get EROFS, and nothing else says so. The table of mounts of the sandbox's first process does.

use std::io::{self, Read};

use crate::driver::DiskState;
use crate::host::layout::DISK_PLACES;

/// Longest table of mounts that is read. A sandbox has some thirty mounts and can't make more.
const MAX_TABLE_BYTES: u64 = 256 * 1024;
/// Options of a file system that writes nothing any more: of all kernels, of kernels since 6.15, and after a forced end.
const DEAD_OPTIONS: [&str; 3] = ["ro", "emergency_ro", "shutdown"];

/// Returns the state of the disk that a process on this host has mounted.
pub(super) fn of_process(pid: i32) -> io::Result<DiskState> {
    let mut table = String::new();
    std::fs::File::open(format!("/proc/{pid}/mountinfo"))?
        .take(MAX_TABLE_BYTES)
        .read_to_string(&mut table)?;
    Ok(of_table(&table))
}

/// Returns the state by the options of the file system, not of its mounts: a place may be mounted read-only on purpose.
fn of_table(table: &str) -> DiskState {
    let mut found = DiskState::Unknown;
    for line in table.lines() {
        let Some((mount, file_system)) = line.split_once(" - ") else { continue };
        let target = mount.split(' ').nth(4).unwrap_or_default();
        let mut words = file_system.split(' ');
        let is_disk = words.next() == Some("ext4") && DISK_PLACES.iter().any(|place| place.target == target);
        if !is_disk {
            continue;
        }
        let options = words.nth(1).unwrap_or_default();
        if options.split(',').any(|option| DEAD_OPTIONS.contains(&option)) {
            return DiskState::ReadOnly;
        }
        found = DiskState::Writable;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_writes_nothing_any_more_is_recognised() {
        let line = |target: &str, mount: &str, options: &str| {
            format!("43 27 7:1 /workspace {target} {mount},nosuid - ext4 /dev/loop1 {options}\n")
        };
        let root = "40 27 0:30 / / ro,relatime - overlay overlay ro,lowerdir=/a\n";
        assert_eq!(of_table(root), DiskState::Unknown);
        assert_eq!(of_table(&line("/elsewhere", "rw", "ro")), DiskState::Unknown);
        assert_eq!(of_table(&(root.to_owned() + &line("/workspace", "ro", "rw"))), DiskState::Writable);
        for options in ["ro", "rw,emergency_ro", "rw,errors=continue,shutdown"] {
            let table = root.to_owned() + &line("/tmp", "rw", "rw") + &line("/workspace", "rw", options);
            assert_eq!(of_table(&table), DiskState::ReadOnly, "{options}");
        }
        for broken in ["", " - ", "43 27 - ext4", "\u{0} - ext4 x ro"] {
            assert_eq!(of_table(broken), DiskState::Unknown, "{broken}");
        }
    }

    #[test]
    fn a_process_without_such_a_disk_says_nothing() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert_ne!(of_process(own).unwrap(), DiskState::ReadOnly);
        assert!(of_process(i32::MAX).is_err());
    }
}
