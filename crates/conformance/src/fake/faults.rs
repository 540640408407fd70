//! What goes wrong in a fake world.

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
    /// Each link of machines that are started from now on breaks after so many bytes.
    pub link_bytes: Option<u64>,
    /// The host of the machines can't be reached: nobody can tell whether they live.
    pub unreachable: bool,
    /// What every machine used.
    pub usage: Usage,
}

impl Faults {
    /// Whether the next start fails.
    pub(super) fn start(&mut self) -> Result<(), StartError> {
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

    /// Whether the next stop fails.
    pub(super) fn refuses_stop(&mut self) -> bool {
        take(&mut self.refused_stops)
    }
}

fn take(count: &mut u32) -> bool {
    let left = *count > 0;
    *count = count.saturating_sub(1);
    left
}
