//! Faults of a fake world.

use std::io;
use std::time::Duration;

use sandyard_sandbox::driver::{StartError, Usage};

/// A script of faults. Nothing fails by default.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    /// Number of next starts that fail at a step.
    pub failing_starts: u32,
    /// Number of next starts that find the host full.
    pub full_starts: u32,
    /// Duration of each start.
    pub start_delay: Duration,
    /// Time that a machine may take to boot, as the driver tells it.
    pub boot_time: Duration,
    /// Number of next stops that fail.
    pub refused_stops: u32,
    /// True if machines that start from now on never dial.
    pub mute: bool,
    /// Bytes after which each link of later machines breaks.
    pub link_bytes: Option<u64>,
    /// True if the driver can't reach the host of its machines: it can start and stop none, and can't tell
    /// which of them live. Links work, because the machines dial.
    pub unreachable: bool,
    /// Number of next lists in which the driver can't tell which machines live.
    pub unknown_lists: u32,
    /// Usage that every machine reports.
    pub usage: Usage,
}

impl Faults {
    /// Fails if the script says so for the next start.
    pub(super) fn start(&mut self) -> Result<(), StartError> {
        self.reach().map_err(|source| StartError::Step { step: "reach the host".into(), source })?;
        if take(&mut self.failing_starts) {
            return Err(StartError::Step {
                step: "make a namespace".into(),
                source: io::Error::other("scripted"),
            });
        }
        if take(&mut self.full_starts) {
            return Err(StartError::NoCapacity("scripted".into()));
        }
        Ok(())
    }

    /// Fails if the script says so for the next stop.
    pub(super) fn stop(&mut self) -> io::Result<()> {
        self.reach()?;
        if take(&mut self.refused_stops) { Err(io::Error::other("scripted")) } else { Ok(()) }
    }

    /// Fails if the host of the machines can't be reached.
    pub(super) fn reach(&self) -> io::Result<()> {
        if self.unreachable { Err(io::ErrorKind::HostUnreachable.into()) } else { Ok(()) }
    }

    /// Reports whether the next list can tell which machines live.
    pub(super) fn sees_machines(&mut self) -> bool {
        !take(&mut self.unknown_lists) && !self.unreachable
    }
}

fn take(count: &mut u32) -> bool {
    let left = *count > 0;
    *count = count.saturating_sub(1);
    left
}
