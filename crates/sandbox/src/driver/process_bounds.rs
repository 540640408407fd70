//! The number of processes that sandboxes may have, by what the host's kernel can number and hold.
//!
//! A fork fails for everybody on the host once `pid_max` numbers or `threads-max` threads are in use. So all sandboxes of a yard
//! together get a part of them, by a limit on the group that holds all of theirs, and one job gets a part of that.

use std::fs;

/// Processes that a kernel can have if it does not tell, its default.
const UNKNOWN_MOST: u64 = 32_768;
/// Settings of the kernel that bound the processes of the whole host.
const SETTINGS: [&str; 2] = ["/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"];

/// Bounds of the processes and threads of sandboxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessBounds {
    /// Processes and threads that the host can have.
    pub host: u64,
    /// Those of all sandboxes of a yard together: three quarters. The rest is the host's and the server's.
    pub together: u64,
    /// Those of one job: a quarter of these, so that no single job keeps the others from forking.
    pub one_job: u64,
}

impl ProcessBounds {
    /// Reads the bounds from the kernel's settings.
    pub fn of_host() -> Self {
        let read = |path| fs::read_to_string(path).ok()?.trim().parse().ok();
        Self::within(SETTINGS.into_iter().filter_map(read).min().unwrap_or(UNKNOWN_MOST))
    }

    /// Returns the bounds where all processes together are at most this many.
    pub(crate) fn within(host: u64) -> Self {
        let together = host / 4 * 3;
        Self { host, together, one_job: together / 4 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_job_leaves_room_for_others_and_all_leave_room_for_the_host() {
        let bounds = ProcessBounds::of_host();
        assert!(bounds.one_job * 4 <= bounds.together && bounds.together < bounds.host, "{bounds:?}");
        let usual = ProcessBounds { host: 32_768, together: 24_576, one_job: 6144 };
        assert_eq!(ProcessBounds::within(UNKNOWN_MOST), usual);
    }
}
