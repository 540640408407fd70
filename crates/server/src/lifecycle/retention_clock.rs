//! The clock of retention: it passes like time and does not jump, also over restarts.
//!
//! Jobs carry the wall time of their end. A wall clock that is set ahead makes them all look old, and retention would delete
//! every result. So this clock advances by the time since boot, which nobody can set. Over a reboot only the wall clock knows how
//! long the host was off, and it is believed up to [`LONGEST_OFF_MS`]. Results may therefore stay longer than they should, never
//! shorter.
//!
//! A *stretch* is a time in which the wall clock ran straight: it says which time of this clock belongs to a wall time. Each jump
//! begins another one. The stretches and the last reading are in a file of the data directory.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::ClockReading;
use crate::disk;

const HOUR_MS: i64 = 3600 * 1000;
/// Difference from which the wall clock has jumped. Adjustments of a time service stay below it for weeks.
const TOLERANCE_MS: i64 = 10 * 60 * 1000;
/// Longest time between two boots that is believed.
const LONGEST_OFF_MS: i64 = 24 * HOUR_MS;
/// Time between two writes of the file. After a reboot no more than this is forgotten.
const SAVE_INTERVAL_MS: i64 = HOUR_MS;
/// Stretches that are remembered. A job that ended before them counts as of the first.
const MAX_STRETCHES: usize = 64;
/// Name of the file in the data directory.
const FILE_NAME: &str = "retention-clock.json";

/// The clock of one yard.
#[derive(Debug)]
pub(super) struct RetentionClock {
    /// Where it is kept; `None` in tests.
    path: Option<PathBuf>,
    state: ClockState,
    saved_ms: Option<i64>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ClockState {
    /// The time of this clock at the last reading.
    now_ms: i64,
    wall_ms: i64,
    boot_ms: i64,
    boot_id: String,
    stretches: Vec<Stretch>,
}

/// A time in which the wall clock ran straight, by its beginning.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Stretch {
    wall_ms: i64,
    /// The time of this clock then.
    clock_ms: i64,
}

impl RetentionClock {
    /// Continues the clock of a data directory, or begins one with the wall time.
    pub(super) fn open(data: &Path, reading: ClockReading) -> Self {
        let path = data.join(FILE_NAME);
        let kept = std::fs::read(&path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let state = kept.filter(|state: &ClockState| !state.stretches.is_empty());
        let mut clock = Self {
            path: Some(path),
            state: state.unwrap_or_else(|| ClockState::new(&reading)),
            saved_ms: None,
        };
        clock.advance(reading);
        clock
    }

    /// Takes a reading of the host's clocks, and keeps it if it must not be forgotten.
    pub(super) fn advance(&mut self, reading: ClockReading) {
        let jumped = self.state.advance(reading);
        if let Some(ahead_ms) = jumped {
            let hours = ahead_ms / HOUR_MS;
            tracing::warn!(hours, "the wall clock jumped; retention counts the time that really passed");
        }
        let is_due = self.saved_ms.is_none_or(|saved| self.state.now_ms - saved >= SAVE_INTERVAL_MS);
        if jumped.is_some() || is_due {
            self.save();
        }
    }

    /// Returns the age of something that happened at a wall time.
    pub(super) fn age_of(&self, wall_ms: i64) -> Duration {
        let age_ms = self.state.now_ms.saturating_sub(self.state.clock_at(wall_ms));
        Duration::from_millis(u64::try_from(age_ms).unwrap_or(0))
    }

    fn save(&mut self) {
        let Some(path) = &self.path else { return };
        let written = serde_json::to_vec(&self.state)
            .map_err(std::io::Error::other)
            .and_then(|text| disk::write_durably(path, &[&text]));
        match written {
            Ok(()) => self.saved_ms = Some(self.state.now_ms),
            Err(error) => tracing::warn!(%error, "the clock of retention could not be kept"),
        }
    }
}

impl ClockState {
    fn new(reading: &ClockReading) -> Self {
        let stretch = Stretch { wall_ms: reading.wall_ms, clock_ms: reading.wall_ms };
        Self {
            now_ms: reading.wall_ms,
            wall_ms: reading.wall_ms,
            boot_ms: reading.boot_ms,
            boot_id: reading.boot_id.clone(),
            stretches: vec![stretch],
        }
    }

    /// Takes a reading. Returns how far the wall clock has jumped, if it has.
    fn advance(&mut self, reading: ClockReading) -> Option<i64> {
        let same_boot = reading.boot_id == self.boot_id && reading.boot_ms >= self.boot_ms;
        let passed_ms = if same_boot {
            reading.boot_ms - self.boot_ms
        } else {
            reading.wall_ms.saturating_sub(self.wall_ms).clamp(0, LONGEST_OFF_MS)
        };
        self.now_ms = self.now_ms.saturating_add(passed_ms);
        (self.wall_ms, self.boot_ms, self.boot_id) = (reading.wall_ms, reading.boot_ms, reading.boot_id);
        let Some(stretch) = self.stretches.last() else { return None };
        let straight_ms = stretch.wall_ms.saturating_add(self.now_ms - stretch.clock_ms);
        let ahead_ms = self.wall_ms.saturating_sub(straight_ms);
        if ahead_ms.saturating_abs() <= TOLERANCE_MS {
            return None;
        }
        self.stretches.push(Stretch { wall_ms: self.wall_ms, clock_ms: self.now_ms });
        let excess = self.stretches.len().saturating_sub(MAX_STRETCHES);
        self.stretches.drain(..excess);
        Some(ahead_ms)
    }

    /// Returns the time of this clock at a wall time. Where the wall clock showed that time twice, the later one counts.
    fn clock_at(&self, wall_ms: i64) -> i64 {
        let ends = self.stretches.iter().skip(1).map(|next| next.clock_ms).chain([self.now_ms]);
        let within = self.stretches.iter().zip(ends).filter_map(|(stretch, end_ms)| {
            let at_ms = stretch.clock_ms.saturating_add(wall_ms.saturating_sub(stretch.wall_ms));
            let is_within = wall_ms >= stretch.wall_ms - TOLERANCE_MS && at_ms <= end_ms + TOLERANCE_MS;
            is_within.then_some(at_ms)
        });
        let at_ms = within.max().unwrap_or_else(|| match self.stretches.first() {
            // Before this clock began.
            Some(first) if wall_ms < first.wall_ms => {
                first.clock_ms.saturating_sub(first.wall_ms.saturating_sub(wall_ms))
            }
            // A time that the wall clock jumped over, or that has not come: nothing is known about it.
            _ => self.now_ms,
        });
        at_ms.min(self.now_ms)
    }
}

#[cfg(test)]
impl RetentionClock {
    /// A clock of a host that was always right.
    pub(super) fn standing_at(wall_ms: i64) -> Self {
        let reading = ClockReading { wall_ms, boot_ms: 0, boot_id: "first".to_owned() };
        Self { path: None, state: ClockState::new(&reading), saved_ms: None }
    }

    fn reading(&self, wall_ms: i64, boot_ms: i64) -> ClockReading {
        ClockReading {
            wall_ms: self.state.wall_ms + wall_ms,
            boot_ms: self.state.boot_ms + boot_ms,
            boot_id: self.state.boot_id.clone(),
        }
    }

    /// Sets the wall clock ahead.
    pub(super) fn jump(&mut self, by_ms: i64) {
        let reading = self.reading(by_ms, 0);
        self.advance(reading);
    }

    /// Lets time pass, minute by minute.
    pub(super) fn pass(&mut self, for_ms: i64) {
        for _ in 0..for_ms / 60_000 {
            let reading = self.reading(60_000, 60_000);
            self.advance(reading);
        }
    }
}

#[cfg(test)]
#[path = "retention_clock_tests.rs"]
mod tests;
