//! Host user ids: a range of 65,536 for each live sandbox, so that no two share a user or its kernel limits.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Mutex, PoisonError};

/// Ids of one sandbox.
pub(super) const RANGE: u32 = 65_536;
/// Above what distributions hand out for users, containers and services (systemd's ranges end below it).
const FIRST: u32 = 0x4000_0000;
/// Ranges in the pool; the last ends below 2^31, where ids get unusable for some programs.
const RANGES: u32 = 0x4000_0000 / RANGE - 1;

/// Which ranges are taken. Drawn at random, so that two yards on one host hardly ever meet.
#[derive(Debug, Default)]
pub(super) struct IdPool {
    taken: Mutex<BTreeSet<u32>>,
}

impl IdPool {
    /// A pool in which the ranges of existing sandboxes are taken.
    pub(super) fn with_taken(bases: impl IntoIterator<Item = u32>) -> Self {
        Self { taken: Mutex::new(bases.into_iter().collect()) }
    }

    /// Takes a free range and returns its first id.
    pub(super) fn take(&self) -> io::Result<u32> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let start = getrandom::u32().map_err(io::Error::other)? % RANGES;
        let mut bases = (0..RANGES).map(|step| FIRST + (start + step) % RANGES * RANGE);
        let base = bases.find(|base| !taken.contains(base)).ok_or(io::ErrorKind::StorageFull)?;
        taken.insert(base);
        Ok(base)
    }

    /// Gives a range back.
    pub(super) fn release(&self, base: u32) {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).remove(&base);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_never_overlap_and_stay_below_two_to_the_31() {
        let pool = IdPool::with_taken([FIRST]);
        let mut seen = BTreeSet::from([FIRST]);
        for _ in 1..RANGES {
            let base = pool.take().unwrap();
            assert!(base.is_multiple_of(RANGE) && base.checked_add(RANGE).unwrap() <= 0x8000_0000);
            assert!(seen.insert(base));
        }
        assert_eq!(pool.take().unwrap_err().kind(), io::ErrorKind::StorageFull);
        pool.release(FIRST);
        assert_eq!(pool.take().unwrap(), FIRST);
    }
}
