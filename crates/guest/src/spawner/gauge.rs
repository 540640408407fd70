//! The memory that the job uses, written into the texts that programs read, again and again while the job has processes.
//!
//! The kernel's own figure is in a control group that is not mounted inside. The sum of the processes' own pages is near enough for
//! programs that ask how much is left, and costs microseconds.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::time::Instant;

use sandyard_protocol::MachineSize;

use super::size;
use crate::limits::{GAUGE_INTERVAL, GAUGED_PROCESSES};

/// Writes the memory in use.
pub(super) struct MemoryGauge {
    pub(super) size: MachineSize,
    pub(super) meminfo: File,
    pub(super) used: File,
    pub(super) due: Instant,
    /// The figure that was written last.
    pub(super) written: u64,
}

impl MemoryGauge {
    /// Writes the figure of now, if it is time and the figure is another one.
    pub(super) fn turn(&mut self) {
        let now = Instant::now();
        if now < self.due {
            return;
        }
        self.due = now + GAUGE_INTERVAL;
        // A figure that can't be read or written stays as it was: nothing depends on it.
        let used = used_bytes().unwrap_or(self.written);
        if used != self.written && self.write(used).is_ok() {
            self.written = used;
        }
    }

    fn write(&self, used: u64) -> io::Result<()> {
        self.meminfo.write_all_at(size::meminfo(&self.size, used).as_bytes(), 0)?;
        self.used.write_all_at(size::used_memory(used).as_bytes(), 0)
    }
}

/// Returns the memory that only the job's processes hold, in bytes. Pages of files and of shared memory do not count.
fn used_bytes() -> io::Result<u64> {
    let is_process = |name: &str| name.starts_with(|letter: char| letter.is_ascii_digit());
    let names = fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let processes = names.filter(|name| is_process(name)).take(GAUGED_PROCESSES);
    let kib: u64 = processes
        .filter_map(|name| fs::read_to_string(format!("/proc/{name}/status")).ok())
        .map(|status| own_kib(&status))
        .sum();
    Ok(kib * 1024)
}

/// Returns the resident memory of one process that no file backs. A process that has ended holds none.
fn own_kib(status: &str) -> u64 {
    let value = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    value.and_then(|value| value.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_files_do_not_count() {
        assert_eq!(own_kib("VmRSS:\t  900 kB\nRssAnon:\t     700 kB\nRssFile:\t 200 kB\n"), 700);
        assert_eq!(own_kib("Name:\tzombie\nState:\tZ (zombie)\n"), 0);
    }

    #[test]
    fn this_process_uses_memory() {
        assert!(used_bytes().unwrap() > 4096);
    }
}
