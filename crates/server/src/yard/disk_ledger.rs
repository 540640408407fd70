//! The account of the yard's file system: the space that is promised to sandboxes and not used yet, against the space that is free.
//!
//! Disk images are sparse, so a sandbox takes its space when it writes, and by then nothing can refuse it. Each sandbox therefore
//! holds a promise of all it may write. A *look* reads, at one moment, the free space and the part of each promise that is used.
//! Between two looks sandboxes use only what is counted already; everything else that is written since, and promises that ended,
//! are subtracted. So a look that is late makes the account cautious, never wrong.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::job::JobId;

const MIB: u64 = 1024 * 1024;
/// Unit of `st_blocks`, whatever the file system's own.
const BLOCK_BYTES: u64 = 512;
/// Age of a look at which it is repeated before anything is promised.
const LOOK_AGE: Duration = Duration::from_secs(1);
/// Age of a look at which it is repeated before a promise is refused. A file system costs one call, each sandbox two.
const REFUSAL_AGE: Duration = Duration::from_millis(100);

/// The space of one file system in bytes, and its promises.
#[derive(Debug)]
pub(crate) struct DiskLedger {
    data: PathBuf,
    /// Space that is never promised.
    reserve: u64,
    /// Space for all promises together, if the operator fixed it.
    fixed: Option<u64>,
    holds: HashMap<u64, DiskHold>,
    next_hold: u64,
    look: DiskLook,
}

#[derive(Debug, Default)]
struct DiskHold {
    promised: u64,
    /// Bytes of the promise that were used at the last look; `None` if the folder has no disk image.
    used: Option<u64>,
    /// The job, and the folder with its disk, once it has an owner.
    place: Option<(JobId, PathBuf)>,
}

#[derive(Debug, Default)]
struct DiskLook {
    at: Option<Instant>,
    free: u64,
    /// Bytes written by the server, and promises that ended, since the look.
    spent: u64,
}

/// A sandbox that takes space, as the last look saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DiskUser {
    pub(crate) job: JobId,
    pub(crate) used_mib: u64,
}

impl DiskLedger {
    /// The account of the file system that holds `data`.
    pub(crate) fn new(data: &Path, reserve_mib: u64, fixed_mib: Option<u64>) -> Self {
        Self {
            data: data.to_owned(),
            reserve: reserve_mib.saturating_mul(MIB),
            fixed: fixed_mib.map(|mib| mib.saturating_mul(MIB)),
            holds: HashMap::new(),
            next_hold: 0,
            look: DiskLook::default(),
        }
    }

    /// Returns the space that a sandbox of that size lacks: the space that is free for it, in MiB. `None` if it fits.
    pub(crate) fn lacks(&mut self, needed_mib: u64) -> Option<u64> {
        self.look_if_older(LOOK_AGE);
        if needed_mib <= self.free_mib() {
            return None;
        }
        // A promise that ended has freed space that only a look sees.
        self.look_if_older(if self.look.spent > 0 { Duration::ZERO } else { REFUSAL_AGE });
        let free_mib = self.free_mib();
        (needed_mib > free_mib).then_some(free_mib)
    }

    /// Promises space, whether it is there or not; returns the name of the promise.
    pub(crate) fn promise(&mut self, mib: u64) -> u64 {
        self.next_hold += 1;
        let hold = DiskHold { promised: mib.saturating_mul(MIB), ..DiskHold::default() };
        self.holds.insert(self.next_hold, hold);
        self.next_hold
    }

    /// Names the job of a promise and the folder that its use is read from.
    pub(crate) fn place(&mut self, hold: u64, job: &JobId, folder: PathBuf) {
        if let Some(hold) = self.holds.get_mut(&hold) {
            hold.place = Some((job.clone(), folder));
        }
    }

    /// Ends a promise.
    pub(crate) fn end(&mut self, hold: u64) {
        if let Some(hold) = self.holds.remove(&hold) {
            // Until the next look it may have been used and kept, as a result for example.
            self.look.spent = self.look.spent.saturating_add(hold.outstanding());
        }
    }

    /// Lets the server write bytes of a job beside its sandbox's disk, if they harm no promise. The rest of the job's own promise
    /// may be used for them if `own` says so: its sandbox has nothing left to write.
    pub(crate) fn spend(&mut self, bytes: u64, own: Option<u64>) -> bool {
        self.look_if_older(LOOK_AGE);
        if bytes > self.spendable(own) {
            self.look_if_older(REFUSAL_AGE);
        }
        let fits = bytes <= self.spendable(own);
        if fits {
            self.look.spent = self.look.spent.saturating_add(bytes);
        }
        fits
    }

    /// Returns the largest promise that could be made if there were no other, in MiB.
    pub(crate) fn largest_mib(&mut self) -> u64 {
        self.look_if_older(LOOK_AGE);
        let used: u64 = self.holds.values().filter_map(|hold| hold.used).sum();
        self.fixed.unwrap_or_else(|| (self.look.free + used).saturating_sub(self.reserve)) / MIB
    }

    /// Looks now. Returns the free space in MiB; none if the file system can't be asked.
    pub(crate) fn look(&mut self) -> Option<u64> {
        let at = Instant::now();
        let free = free_bytes(&self.data);
        for hold in self.holds.values_mut() {
            // A sandbox can't use more than it was promised; its folder may for a moment, while a disk is made.
            let used = hold.place.as_ref().and_then(|(_, folder)| used_bytes(folder));
            hold.used = used.map(|used| used.min(hold.promised));
        }
        // A file system that can't be asked stops nothing: writes to a full one fail visibly.
        self.look = DiskLook { at: Some(at), free: free.unwrap_or(u64::MAX / 2), spent: 0 };
        free.map(|bytes| bytes / MIB)
    }

    /// Returns the job that uses most, by the last look.
    pub(crate) fn largest_user(&self) -> Option<DiskUser> {
        let most = self.holds.values().filter(|hold| hold.place.is_some()).max_by_key(|hold| hold.used)?;
        let (job, _) = most.place.as_ref()?;
        Some(DiskUser { job: job.clone(), used_mib: most.used.unwrap_or(0) / MIB })
    }

    /// Returns the space that a job used at the last look; none if it has no promise or no disk image.
    pub(crate) fn used_mib(&self, job: &JobId) -> Option<u64> {
        let is_job = |hold: &&DiskHold| hold.place.as_ref().is_some_and(|(owner, _)| owner == job);
        self.holds.values().find(is_job).and_then(|hold| hold.used).map(|used| used / MIB)
    }

    /// The sum of all promises in MiB.
    pub(crate) fn promised_mib(&self) -> u64 {
        self.holds.values().map(|hold| hold.promised / MIB).sum()
    }

    fn look_if_older(&mut self, age: Duration) {
        if self.look.at.is_none_or(|at| at.elapsed() >= age) {
            self.look();
        }
    }

    /// The space that may be promised now, in MiB.
    fn free_mib(&self) -> u64 {
        let free = match self.fixed {
            Some(fixed) => fixed.saturating_sub(self.holds.values().map(|hold| hold.promised).sum()),
            None => self.look.free.saturating_sub(self.reserve + self.outstanding(None) + self.look.spent),
        };
        free / MIB
    }

    fn spendable(&self, own: Option<u64>) -> u64 {
        // An operator who fixed the space may promise more than there is: then only what is there counts.
        let outstanding = if self.fixed.is_some() { 0 } else { self.outstanding(own) };
        self.look.free.saturating_sub(self.reserve + outstanding + self.look.spent)
    }

    fn outstanding(&self, except: Option<u64>) -> u64 {
        self.holds.iter().filter(|(name, _)| Some(**name) != except).map(|(_, hold)| hold.outstanding()).sum()
    }
}

impl DiskHold {
    /// The part of the promise that may still be used.
    fn outstanding(&self) -> u64 {
        self.promised.saturating_sub(self.used.unwrap_or(0))
    }
}

/// Returns the space that a user without privileges may take on the file system of a folder.
pub(crate) fn free_bytes(folder: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Returns the space that the disk images in a folder take: their blocks, not their size. None if there is no image.
fn used_bytes(folder: &Path) -> Option<u64> {
    let files = std::fs::read_dir(folder).ok()?.flatten().filter_map(|entry| entry.metadata().ok());
    let blocks: Vec<u64> = files.filter(|file| file.is_file()).map(|file| file.blocks()).collect();
    (!blocks.is_empty()).then(|| blocks.iter().sum::<u64>().saturating_mul(BLOCK_BYTES))
}

#[cfg(test)]
#[path = "disk_ledger_tests.rs"]
mod tests;
