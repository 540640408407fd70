//! Faults of a fake world.

use std::io;
use std::time::Duration;

use sandyard_sandbox::driver::{StartError, Usage};

/// A script of faults; nothing goes wrong by default.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    /// The next starts that fail at a step.
    pub failing_starts: u32,
    /// The next starts that find the host full.
    pub full_starts: u32,
    /// How long each start takes.
    pub start_delay: Duration,
    /// The next stops that fail.
    pub refused_stops: u32,
    /// Machines that are started from now on never dial.
    pub mute: bool,
    /// Bytes after which each link of later machines breaks.
    pub link_bytes: Option<u64>,
    /// The driver can't reach the host of its machines: it can start and stop none, and can't tell which of them live. Links are
    /// not affected, because the machines dial.
    pub unreachable: bool,
    /// The next lists in which the driver can't tell which machines live.
    pub unknown_lists: u32,
    /// Reported usage of every machine.
    pub usage: Usage,
}

impl Faults {
    /// Whether the next start fails.
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

    /// Fails if the next stop does.
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
