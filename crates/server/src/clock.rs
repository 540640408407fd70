//! The clocks of the server. Everything that needs the time is given a [`Clock`]; nothing else reads it from the system.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Tells the time: by the wall for people, and since boot for leases.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Clock {
    /// Time since the epoch at which the wall clock stands, for tests.
    stands_at: Option<Duration>,
}

/// All clocks at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClockReading {
    pub(crate) wall_ms: i64,
    /// Time since boot, suspend included.
    pub(crate) boot_ms: i64,
    /// The kernel's id of this boot; empty if it can't be read.
    pub(crate) boot_id: String,
}

impl Clock {
    /// Reads all clocks.
    pub(crate) fn reading(&self) -> ClockReading {
        let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        ClockReading { wall_ms: self.unix_ms(), boot_ms: self.boot_ms(), boot_id: boot_id.trim().to_owned() }
    }

    /// A clock whose wall time stands still.
    #[cfg(test)]
    pub(crate) fn standing_at(since_epoch: Duration) -> Self {
        Self { stands_at: Some(since_epoch) }
    }

    /// Returns the wall time since the epoch. It may jump in either direction.
    pub(crate) fn since_epoch(&self) -> Duration {
        self.stands_at.unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
    }

    /// Returns the wall time in milliseconds since the epoch.
    pub(crate) fn unix_ms(&self) -> i64 {
        i64::try_from(self.since_epoch().as_millis()).unwrap_or(i64::MAX)
    }

    /// Returns the milliseconds since boot, suspend included. It never jumps, so leases are measured by it.
    pub(crate) fn boot_ms(&self) -> i64 {
        let boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        boot.tv_sec * 1000 + boot.tv_nsec / 1_000_000
    }
}
