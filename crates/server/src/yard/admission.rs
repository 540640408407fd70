//! Admission: bounds the number of sandboxes and their memory by limits, so that the kernel never has to kill the server.
//!
//! [`Admission`] counts; the order in which waiting jobs are admitted is decided by `waiting_line`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::config::AdmissionConfig;
use crate::job::RoomShortage;

/// Decides whether another sandbox may start.
#[derive(Debug, Clone)]
pub(crate) struct Admission {
    gate: Arc<AdmissionGate>,
}

#[derive(Debug)]
struct AdmissionGate {
    config: AdmissionConfig,
    data: PathBuf,
    taken: Mutex<AdmittedTotal>,
    freed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct AdmittedTotal {
    sandboxes: usize,
    /// Sandboxes that are kept for jobs that have ended.
    kept: usize,
    room: SandboxRoom,
}

/// The part of the host that one sandbox takes, or several together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SandboxRoom {
    pub(crate) memory_mib: u64,
}

impl SandboxRoom {
    /// The room of the smallest sandbox that a request may ask for.
    pub(crate) const SMALLEST: Self = Self { memory_mib: 16 };

    fn add(&mut self, other: Self) {
        self.memory_mib += other.memory_mib;
    }

    fn remove(&mut self, other: Self) {
        self.memory_mib -= other.memory_mib;
    }
}

/// A share of the host for one sandbox; dropping it gives the share back.
#[derive(Debug)]
pub(crate) struct Permit {
    gate: Arc<AdmissionGate>,
    room: SandboxRoom,
    kept: bool,
}

impl Admission {
    /// `freed` is notified whenever room comes back.
    pub(crate) fn new(config: AdmissionConfig, data: &Path, freed: Arc<Notify>) -> Self {
        let gate = AdmissionGate { config, data: data.to_owned(), taken: Mutex::default(), freed };
        Self { gate: Arc::new(gate) }
    }

    /// Admits a sandbox of that size, or reports which resource it lacks.
    pub(crate) fn admit(&self, room: SandboxRoom) -> Result<Permit, RoomShortage> {
        let has_disk = self.has_disk();
        let mut taken = self.taken();
        match self.lacks(&taken, room, has_disk) {
            Some(shortage) => Err(shortage),
            None => Ok(self.take(&mut taken, room)),
        }
    }

    /// Returns the resource for which [`Self::admit`] would refuse a sandbox of that size now.
    pub(crate) fn shortage(&self, room: SandboxRoom) -> Option<RoomShortage> {
        let has_disk = self.has_disk();
        self.lacks(&self.taken(), room, has_disk)
    }

    fn lacks(&self, taken: &AdmittedTotal, room: SandboxRoom, has_disk: bool) -> Option<RoomShortage> {
        let config = &self.gate.config;
        let kept = taken.kept;
        if !has_disk {
            return Some(RoomShortage::Disk { headroom_mib: config.disk_headroom_mib });
        }
        if taken.sandboxes >= config.concurrency {
            return Some(RoomShortage::Sandboxes { most: config.concurrency, kept });
        }
        // By limits, not by use: sandboxes that all use their limit at once must still fit beside the server.
        let free_mib = config.memory_mib.saturating_sub(config.reserve_mib + taken.room.memory_mib);
        let needed_mib = room.memory_mib;
        (needed_mib > free_mib).then_some(RoomShortage::Memory { needed_mib, free_mib, kept })
    }

    /// Admits a sandbox that exists already, even beyond the limits.
    pub(crate) fn adopt(&self, room: SandboxRoom) -> Permit {
        self.take(&mut self.taken(), room)
    }

    fn take(&self, taken: &mut AdmittedTotal, room: SandboxRoom) -> Permit {
        taken.sandboxes += 1;
        taken.room.add(room);
        Permit { gate: Arc::clone(&self.gate), room, kept: false }
    }

    fn taken(&self) -> MutexGuard<'_, AdmittedTotal> {
        self.gate.taken.lock()
    }

    /// The most memory that one job may ask for.
    pub(crate) fn largest_memory_mib(&self) -> u64 {
        self.gate.config.memory_mib.saturating_sub(self.gate.config.reserve_mib)
    }

    /// True if the yard's disk has its headroom, or can't be asked.
    pub(crate) fn has_disk(&self) -> bool {
        // A disk that can't be asked does not stop the yard: writes to a full disk fail visibly anyway.
        rustix::fs::statvfs(&self.gate.data).map_or(true, |disk| {
            disk.f_bavail.saturating_mul(disk.f_frsize) / (1024 * 1024) >= self.gate.config.disk_headroom_mib
        })
    }

    /// Sandboxes and memory in use.
    pub(crate) fn in_use(&self) -> (usize, u64) {
        let taken = self.taken();
        (taken.sandboxes, taken.room.memory_mib)
    }
}

impl Permit {
    /// Counts the sandbox as one that is kept for a job that has ended. Statuses of waiting jobs name the number of these.
    pub(crate) fn count_as_kept(&mut self) {
        if !std::mem::replace(&mut self.kept, true) {
            self.gate.taken.lock().kept += 1;
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut taken = self.gate.taken.lock();
        taken.sandboxes -= 1;
        taken.kept -= usize::from(self.kept);
        taken.room.remove(self.room);
        // Wakes the loop, which claims the next queued job. The permit is kept by `Notify` if the loop is busy.
        self.gate.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(concurrency: usize) -> Admission {
        let mut config = crate::config::ServerConfig::new(PathBuf::new(), 1000).admission;
        (config.concurrency, config.reserve_mib, config.disk_headroom_mib) = (concurrency, 100, 0);
        Admission::new(config, Path::new("/"), Arc::default())
    }

    fn memory(memory_mib: u64) -> SandboxRoom {
        SandboxRoom { memory_mib }
    }

    #[test]
    fn r4_limits_and_reserve_never_exceed_the_memory() {
        let admission = admission(10);
        let first = admission.admit(memory(500)).unwrap();
        assert!(admission.admit(memory(401)).is_err());
        let second = admission.admit(memory(400)).unwrap();
        assert!(admission.admit(memory(1)).is_err());
        drop(first);
        assert_eq!(admission.in_use(), (1, 400));
        drop(second);
        assert!(admission.admit(memory(901)).is_err());
        assert!(admission.admit(memory(900)).is_ok());
    }

    #[test]
    fn no_more_sandboxes_than_allowed_but_adopted_ones_always() {
        let admission = admission(1);
        let _adopted = admission.adopt(memory(5000));
        assert!(admission.admit(memory(1)).is_err());
        let _another = admission.adopt(memory(5000));
        assert_eq!(admission.in_use(), (2, 10_000));
    }

    #[test]
    fn a_refusal_names_the_resource_and_the_kept_sandboxes() {
        let admission = admission(2);
        let mut kept = admission.admit(memory(600)).unwrap();
        kept.count_as_kept();
        kept.count_as_kept();
        let lacking = RoomShortage::Memory { needed_mib: 400, free_mib: 300, kept: 1 };
        assert_eq!(admission.shortage(memory(400)), Some(lacking));
        let _second = admission.admit(memory(1)).unwrap();
        assert_eq!(admission.shortage(memory(1)), Some(RoomShortage::Sandboxes { most: 2, kept: 1 }));
        drop(kept);
        assert_eq!(admission.shortage(memory(899)), None);
    }

    #[test]
    fn l10_nothing_is_admitted_without_disk() {
        let mut config = crate::config::ServerConfig::new(PathBuf::new(), 1000).admission;
        config.disk_headroom_mib = u64::MAX;
        let admission = Admission::new(config, Path::new("/"), Arc::default());
        assert!(!admission.has_disk());
        assert!(matches!(admission.admit(memory(1)), Err(RoomShortage::Disk { .. })));
    }
}
