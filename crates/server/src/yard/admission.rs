//! Admission: bounds the number of sandboxes, their memory and their disks by limits, so that the kernel never has to kill the
//! server and no sandbox finds the host's disk full.
//!
//! [`Admission`] counts, `disk_ledger` keeps the account of the disk; the order in which waiting jobs are admitted is decided by `waiting_line`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::disk_ledger::{DiskLedger, DiskUser, free_bytes};
use crate::config::AdmissionConfig;
use crate::job::{JobId, RoomShortage};

/// Space beside its disk that each sandbox is admitted with: for the first of its output, its rows and its records. What the
/// server writes for a job beyond it has to fit beside all promises.
const HOST_SHARE_MIB: u64 = 16;
const MIB: u64 = 1024 * 1024;

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

#[derive(Debug)]
struct AdmittedTotal {
    sandboxes: usize,
    /// Sandboxes that are kept for jobs that have ended.
    kept: usize,
    memory_mib: u64,
    disk: DiskLedger,
}

/// The part of the host that one sandbox takes, or several together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SandboxRoom {
    pub(crate) memory_mib: u64,
    /// Space on the yard's file system, without the share that every sandbox gets.
    pub(crate) disk_mib: u64,
}

impl SandboxRoom {
    /// The room of the smallest sandbox that a request may ask for. Its disk may be in memory.
    pub(crate) const SMALLEST: Self = Self { memory_mib: 16, disk_mib: 0 };
}

/// A share of the host for one sandbox; dropping it gives the share back.
#[derive(Debug)]
pub(crate) struct Permit {
    gate: Arc<AdmissionGate>,
    memory_mib: u64,
    /// Name of the promise of disk space.
    disk: u64,
    kept: bool,
}

impl Admission {
    /// `freed` is notified whenever room comes back.
    pub(crate) fn new(config: AdmissionConfig, data: &Path, freed: Arc<Notify>) -> Self {
        let disk = DiskLedger::new(data, config.disk_reserve_mib, config.disk_mib);
        let taken = AdmittedTotal { sandboxes: 0, kept: 0, memory_mib: 0, disk };
        let gate = AdmissionGate { config, data: data.to_owned(), taken: Mutex::new(taken), freed };
        Self { gate: Arc::new(gate) }
    }

    /// Admits a sandbox of that size, or reports which resource it lacks.
    pub(crate) fn admit(&self, room: SandboxRoom) -> Result<Permit, RoomShortage> {
        let has_disk = self.has_disk();
        let mut taken = self.taken();
        match self.lacks(&mut taken, room, has_disk) {
            Some(shortage) => Err(shortage),
            None => Ok(self.take(&mut taken, room)),
        }
    }

    /// Returns the resource for which [`Self::admit`] would refuse a sandbox of that size now.
    pub(crate) fn shortage(&self, room: SandboxRoom) -> Option<RoomShortage> {
        let has_disk = self.has_disk();
        self.lacks(&mut self.taken(), room, has_disk)
    }

    fn lacks(&self, taken: &mut AdmittedTotal, room: SandboxRoom, has_disk: bool) -> Option<RoomShortage> {
        let config = &self.gate.config;
        let kept = taken.kept;
        if !has_disk {
            return Some(RoomShortage::Disk { headroom_mib: config.disk_reserve_mib });
        }
        if taken.sandboxes >= config.concurrency {
            return Some(RoomShortage::Sandboxes { most: config.concurrency, kept });
        }
        // By limits, not by use: sandboxes that all use their limit at once must still fit beside the server.
        let free_mib = config.memory_mib.saturating_sub(config.reserve_mib + taken.memory_mib);
        let needed_mib = room.memory_mib;
        if needed_mib > free_mib {
            return Some(RoomShortage::Memory { needed_mib, free_mib, kept });
        }
        let needed_mib = room.disk_mib.saturating_add(HOST_SHARE_MIB);
        let free_mib = taken.disk.lacks(needed_mib)?;
        let most_mib = taken.disk.largest_mib();
        Some(RoomShortage::DiskSpace { needed_mib, free_mib, most_mib, kept })
    }

    /// Admits a sandbox that exists already, even beyond the limits.
    pub(crate) fn adopt(&self, room: SandboxRoom) -> Permit {
        self.take(&mut self.taken(), room)
    }

    fn take(&self, taken: &mut AdmittedTotal, room: SandboxRoom) -> Permit {
        taken.sandboxes += 1;
        taken.memory_mib += room.memory_mib;
        let disk = taken.disk.promise(room.disk_mib.saturating_add(HOST_SHARE_MIB));
        Permit { gate: Arc::clone(&self.gate), memory_mib: room.memory_mib, disk, kept: false }
    }

    fn taken(&self) -> MutexGuard<'_, AdmittedTotal> {
        self.gate.taken.lock()
    }

    /// The most memory that one job may ask for.
    pub(crate) fn largest_memory_mib(&self) -> u64 {
        self.gate.config.memory_mib.saturating_sub(self.gate.config.reserve_mib)
    }

    /// The largest disk that one job may ask for, in MiB: all that could be promised if there were no other job.
    pub(crate) fn largest_disk_mib(&self) -> u64 {
        self.taken().disk.largest_mib().saturating_sub(HOST_SHARE_MIB)
    }

    /// True if the yard's disk has its reserve, or can't be asked.
    pub(crate) fn has_disk(&self) -> bool {
        // A disk that can't be asked does not stop the yard: writes to a full disk fail visibly anyway.
        free_bytes(&self.gate.data).is_none_or(|free| free / MIB >= self.gate.config.disk_reserve_mib)
    }

    /// Looks at the disk. Returns the job that uses most of it, if the disk is so full that a job has to end.
    pub(crate) fn disk_hog(&self) -> Option<DiskUser> {
        let mut taken = self.taken();
        // Half of the reserve is left then: enough to end the job, and to record it.
        let is_low =
            taken.disk.look().is_some_and(|free_mib| free_mib < self.gate.config.disk_reserve_mib / 2);
        is_low.then(|| taken.disk.largest_user()).flatten()
    }

    /// Looks at the disk. Returns the space that a job's sandbox uses of it, in MiB; none if the job has no disk image here.
    pub(crate) fn look_at_disk_use_mib(&self, job: &JobId) -> Option<u64> {
        let mut taken = self.taken();
        taken.disk.look();
        taken.disk.used_mib(job)
    }

    /// Lets the server write bytes that belong to no promise.
    pub(crate) fn may_write(&self, bytes: u64) -> bool {
        self.taken().disk.spend(bytes, None)
    }

    /// Sandboxes, memory and disk in use, the last two in MiB.
    pub(crate) fn in_use(&self) -> RoomInUse {
        let taken = self.taken();
        let (memory_mib, disk_mib) = (taken.memory_mib, taken.disk.promised_mib());
        RoomInUse { sandboxes: taken.sandboxes, memory_mib, disk_mib }
    }
}

/// The room that all sandboxes have together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RoomInUse {
    pub(crate) sandboxes: usize,
    pub(crate) memory_mib: u64,
    pub(crate) disk_mib: u64,
}

impl Permit {
    /// Names the job, and the folder from which the use of its disk is read.
    pub(crate) fn is_for(&self, job: &JobId, folder: PathBuf) {
        self.gate.taken.lock().disk.place(self.disk, job, folder);
    }

    /// Lets the server store output of the job: `stored` bytes are there already, `more` are to come.
    pub(crate) fn may_store_output(&self, stored: u64, more: u64) -> bool {
        let beyond = stored.saturating_add(more).saturating_sub(HOST_SHARE_MIB * MIB).min(more);
        beyond == 0 || self.gate.taken.lock().disk.spend(beyond, None)
    }

    /// Lets the server store the result of the job, whose sandbox has nothing left to write.
    pub(crate) fn may_store_result(&self, bytes: u64) -> bool {
        self.gate.taken.lock().disk.spend(bytes, Some(self.disk))
    }

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
        taken.memory_mib -= self.memory_mib;
        taken.disk.end(self.disk);
        // Wakes the loop, which claims the next queued job. The permit is kept by `Notify` if the loop is busy.
        self.gate.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admission(concurrency: usize) -> Admission {
        let mut config = crate::config::ServerConfig::new(PathBuf::new(), 1000).admission;
        (config.concurrency, config.reserve_mib, config.disk_reserve_mib) = (concurrency, 100, 0);
        Admission::new(config, Path::new("/"), Arc::default())
    }

    fn memory(memory_mib: u64) -> SandboxRoom {
        SandboxRoom { memory_mib, disk_mib: 0 }
    }

    fn in_use(admission: &Admission) -> (usize, u64) {
        let RoomInUse { sandboxes, memory_mib, .. } = admission.in_use();
        (sandboxes, memory_mib)
    }

    #[test]
    fn r4_limits_and_reserve_never_exceed_the_memory() {
        let admission = admission(10);
        let first = admission.admit(memory(500)).unwrap();
        assert!(admission.admit(memory(401)).is_err());
        let second = admission.admit(memory(400)).unwrap();
        assert!(admission.admit(memory(1)).is_err());
        drop(first);
        assert_eq!(in_use(&admission), (1, 400));
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
        assert_eq!(in_use(&admission), (2, 10_000));
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
        config.disk_reserve_mib = u64::MAX / MIB;
        let admission = Admission::new(config, Path::new("/"), Arc::default());
        assert!(!admission.has_disk());
        assert!(matches!(admission.admit(memory(1)), Err(RoomShortage::Disk { .. })));
    }

    #[test]
    fn f3_disks_are_admitted_like_memory() {
        let mut config = crate::config::ServerConfig::new(PathBuf::new(), 1000).admission;
        (config.disk_reserve_mib, config.disk_mib) = (0, Some(200));
        let admission = Admission::new(config, Path::new("/"), Arc::default());
        let disk = |disk_mib| SandboxRoom { memory_mib: 1, disk_mib };
        assert_eq!(admission.largest_disk_mib(), 200 - HOST_SHARE_MIB);
        let first = admission.admit(disk(100)).unwrap();
        let lacking = RoomShortage::DiskSpace { needed_mib: 86, free_mib: 84, most_mib: 200, kept: 0 };
        assert_eq!(admission.admit(disk(70)).unwrap_err(), lacking);
        let second = admission.admit(disk(68)).unwrap();
        assert!(admission.shortage(SandboxRoom::SMALLEST).is_some());
        let _adopted = admission.adopt(disk(1000));
        drop((first, second));
        assert_eq!(admission.in_use().disk_mib, 1000 + HOST_SHARE_MIB);
    }
}
