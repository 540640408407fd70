//! Admission: bounds the number of sandboxes and their memory by limits, so that the kernel never has to kill the server.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::config::AdmissionConfig;

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
    memory_mib: u64,
}

/// A share of the host for one sandbox; dropping it gives the share back.
#[derive(Debug)]
pub(crate) struct Permit {
    gate: Arc<AdmissionGate>,
    memory_mib: u64,
}

impl Admission {
    /// `freed` is notified whenever room comes back.
    pub(crate) fn new(config: AdmissionConfig, data: &Path, freed: Arc<Notify>) -> Self {
        let gate = AdmissionGate { config, data: data.to_owned(), taken: Mutex::default(), freed };
        Self { gate: Arc::new(gate) }
    }

    /// Admits a sandbox of that size if the host has room.
    pub(crate) fn admit(&self, memory_mib: u64) -> Option<Permit> {
        if !self.has_disk() {
            return None;
        }
        let mut taken = self.gate.taken.lock();
        self.fits(&taken, memory_mib).then(|| self.take(&mut taken, memory_mib))
    }

    /// True if [`Self::admit`] would work now. Another sandbox may be admitted in between.
    pub(crate) fn has_room(&self, memory_mib: u64) -> bool {
        let taken = self.gate.taken.lock();
        self.has_disk() && self.fits(&taken, memory_mib)
    }

    fn fits(&self, taken: &AdmittedTotal, memory_mib: u64) -> bool {
        let config = &self.gate.config;
        // By limits, not by use: sandboxes that all use their limit at once must still fit beside the server.
        taken.sandboxes < config.concurrency
            && taken.memory_mib + memory_mib + config.reserve_mib <= config.memory_mib
    }

    /// Admits a sandbox that exists already, even beyond the limits.
    pub(crate) fn adopt(&self, memory_mib: u64) -> Permit {
        let mut taken = self.gate.taken.lock();
        self.take(&mut taken, memory_mib)
    }

    fn take(&self, taken: &mut AdmittedTotal, memory_mib: u64) -> Permit {
        taken.sandboxes += 1;
        taken.memory_mib += memory_mib;
        Permit { gate: Arc::clone(&self.gate), memory_mib }
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
        let taken = self.gate.taken.lock();
        (taken.sandboxes, taken.memory_mib)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut taken = self.gate.taken.lock();
        taken.sandboxes -= 1;
        taken.memory_mib -= self.memory_mib;
        // Wakes the loop, which claims the next queued job. The permit is kept by `Notify` if the loop is busy.
        self.gate.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(concurrency: usize) -> Admission {
        let config = AdmissionConfig {
            concurrency,
            memory_mib: 1000,
            reserve_mib: 100,
            disk_headroom_mib: 0,
            queue: 10,
        };
        Admission::new(config, Path::new("/"), Arc::default())
    }

    #[test]
    fn r4_limits_and_reserve_never_exceed_the_memory() {
        let admission = admission(10);
        let first = admission.admit(500).unwrap();
        assert!(admission.admit(401).is_none());
        let second = admission.admit(400).unwrap();
        assert!(admission.admit(1).is_none());
        drop(first);
        assert_eq!(admission.in_use(), (1, 400));
        drop(second);
        assert!(admission.admit(901).is_none());
        assert!(admission.admit(900).is_some());
    }

    #[test]
    fn no_more_sandboxes_than_allowed_but_adopted_ones_always() {
        let admission = admission(1);
        let _adopted = admission.adopt(5000);
        assert!(admission.admit(1).is_none());
        let _another = admission.adopt(5000);
        assert_eq!(admission.in_use(), (2, 10_000));
    }

    #[test]
    fn l10_nothing_is_admitted_without_disk() {
        let mut config = AdmissionConfig {
            concurrency: 1,
            memory_mib: 1000,
            reserve_mib: 0,
            disk_headroom_mib: 0,
            queue: 1,
        };
        config.disk_headroom_mib = u64::MAX;
        let admission = Admission::new(config, Path::new("/"), Arc::default());
        assert!(!admission.has_disk());
        assert!(admission.admit(1).is_none());
    }
}
