//! Host user ids. Every live sandbox has its own, so that no two share a user or its kernel limits.
//!
//! Root gives each sandbox a range of 65,536. An ordinary user has one such range in all (`/etc/subuid`), so
//! each sandbox gets a block with only the ids that it uses, in the numbering of the yard's user namespace.

use std::collections::BTreeSet;
use std::io;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::host::layout::{AGENT_ID, KEEPER_ID, ROOT_ID, TERMINAL_GROUP};

/// Number of ids of a sandbox that root makes.
const IDS_PER_RANGE: u32 = 65_536;
/// First id: above the ranges of distributions for users, containers and services (systemd's ranges end below it).
const FIRST_ID: u32 = 0x4000_0000;
/// Ranges in the pool; the last ends below 2^31, where ids get unusable for some programs.
const RANGES: u32 = 0x4000_0000 / IDS_PER_RANGE - 1;
/// Ids that exist inside, in the order of a block. Every other id is `nobody`.
const PEOPLE: [u32; 4] = [ROOT_ID, TERMINAL_GROUP, AGENT_ID, KEEPER_ID];
/// Number of ids of a sandbox that an ordinary user makes, one for each of `PEOPLE`.
pub(crate) const IDS_PER_BLOCK: u32 = 4;
/// First subordinate id in the yard's user namespace, in which 0 is the user.
const FIRST_SUBORDINATE: u32 = 1;

/// Ids that sandboxes can get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Supply {
    /// The host's ids from `FIRST_ID` on.
    Host,
    /// The subordinate ids of one user.
    Subordinate {
        /// First id, in the numbering of the host.
        first: u32,
        /// Number of ids that the user has.
        count: u32,
    },
}

/// One line of an id map: ids inside the sandbox and the ids of the launcher's namespace that they stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Extent {
    pub(crate) inside: u32,
    pub(crate) outside: u32,
    pub(crate) count: u32,
}

/// The ids that are taken. New ones are drawn at random, so that two yards on one host hardly ever meet.
#[derive(Debug)]
pub(crate) struct IdPool {
    supply: Supply,
    taken: Mutex<BTreeSet<u32>>,
}

impl IdPool {
    /// Creates a pool in which the ids of existing sandboxes are taken.
    pub(crate) fn with_taken(supply: Supply, bases: impl IntoIterator<Item = u32>) -> Self {
        Self { supply, taken: Mutex::new(bases.into_iter().collect()) }
    }

    /// Takes free ids, none of the `reserved` ones, and returns the first.
    pub(crate) fn take(&self, reserved: &BTreeSet<u32>) -> io::Result<u32> {
        // One lock for search and insertion, so that two starts never get the same ids.
        let mut taken = self.taken.lock();
        let (first, step, shares) = match self.supply {
            Supply::Host => (FIRST_ID, IDS_PER_RANGE, RANGES),
            Supply::Subordinate { count, .. } => (FIRST_SUBORDINATE, IDS_PER_BLOCK, count / IDS_PER_BLOCK),
        };
        let start = getrandom::u32().map_err(io::Error::other)?.checked_rem(shares).unwrap_or(0);
        let mut bases = (0..shares).map(|share| first + (start + share) % shares * step);
        let free = |base: &u32| !taken.contains(base) && !reserved.contains(base);
        let base = bases.find(free).ok_or(io::ErrorKind::StorageFull)?;
        taken.insert(base);
        Ok(base)
    }

    /// Takes the ids that already own a workspace's files. Fails with `ResourceBusy` if a sandbox runs on
    /// that workspace.
    pub(crate) fn take_again(&self, base: u32) -> io::Result<u32> {
        let fresh = self.taken.lock().insert(base);
        if fresh { Ok(base) } else { Err(io::ErrorKind::ResourceBusy.into()) }
    }

    pub(crate) fn release(&self, base: u32) {
        self.taken.lock().remove(&base);
    }

    /// Returns the map of a sandbox, for users and groups alike.
    pub(crate) fn map(&self, base: u32) -> Vec<Extent> {
        match self.supply {
            Supply::Host => vec![Extent { inside: 0, outside: base, count: IDS_PER_RANGE }],
            Supply::Subordinate { .. } => {
                (base..).zip(PEOPLE).map(|(outside, inside)| Extent { inside, outside, count: 1 }).collect()
            }
        }
    }

    /// Returns keeper's user in the numbering of the host.
    pub(crate) fn keeper_on_host(&self, base: u32) -> u32 {
        match self.supply {
            Supply::Host => base + KEEPER_ID,
            // Keeper is the last id of a block.
            Supply::Subordinate { first, .. } => first + (base - FIRST_SUBORDINATE) + (IDS_PER_BLOCK - 1),
        }
    }
}

/// Maps an id inside the sandbox to an id of the launcher's namespace.
pub(crate) fn outside(map: &[Extent], inside: u32) -> Option<u32> {
    let holds = |extent: &&Extent| (extent.inside..extent.inside + extent.count).contains(&inside);
    map.iter().find(holds).map(|extent| extent.outside + (inside - extent.inside))
}

/// Returns the host's id of root inside. Without a map that is root.
pub(crate) fn owner(map: &[Extent]) -> u32 {
    map.iter().find(|one| one.inside == 0).map_or(0, |one| one.outside)
}

/// Returns the map in the format of `/proc/<pid>/uid_map`.
pub(crate) fn map_text(map: &[Extent]) -> String {
    map.iter().map(|one| format!("{} {} {}\n", one.inside, one.outside, one.count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: BTreeSet<u32> = BTreeSet::new();

    #[test]
    fn ranges_never_overlap_and_stay_below_two_to_the_31() {
        let pool = IdPool::with_taken(Supply::Host, [FIRST_ID]);
        let mut seen = BTreeSet::from([FIRST_ID]);
        for _ in 1..RANGES {
            let base = pool.take(&NONE).unwrap();
            assert!(
                base.is_multiple_of(IDS_PER_RANGE) && base.checked_add(IDS_PER_RANGE).unwrap() <= 0x8000_0000
            );
            assert!(seen.insert(base));
        }
        assert_eq!(pool.take(&NONE).unwrap_err().kind(), io::ErrorKind::StorageFull);
        pool.release(FIRST_ID);
        assert_eq!(pool.take(&NONE).unwrap(), FIRST_ID);
    }

    #[test]
    fn blocks_share_no_id_and_stay_within_what_the_user_has() {
        let supply = Supply::Subordinate { first: 100_000, count: 15 };
        let pool = IdPool::with_taken(supply, []);
        let mut seen = BTreeSet::new();
        for _ in 0..3 {
            let base = pool.take(&NONE).unwrap();
            for extent in pool.map(base) {
                assert!((1..=15).contains(&extent.outside) && seen.insert(extent.outside), "{extent:?}");
            }
            let keeper = outside(&pool.map(base), KEEPER_ID).unwrap();
            assert_eq!(pool.keeper_on_host(base), 100_000 + keeper - 1);
        }
        assert_eq!(pool.take(&NONE).unwrap_err().kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn a_workspaces_ids_are_given_to_nobody_else_and_to_one_sandbox_at_a_time() {
        let pool = IdPool::with_taken(Supply::Subordinate { first: 100_000, count: 8 }, []);
        assert_eq!(pool.take(&BTreeSet::from([1])).unwrap(), 5);
        assert_eq!(pool.take_again(1).unwrap(), 1);
        assert_eq!(pool.take_again(1).unwrap_err().kind(), io::ErrorKind::ResourceBusy);
    }

    #[test]
    fn only_those_who_exist_inside_are_mapped() {
        let pool = IdPool::with_taken(Supply::Subordinate { first: 100_000, count: 8 }, []);
        let map = pool.map(5);
        assert_eq!(map_text(&map), "0 5 1\n5 6 1\n1000 7 1\n65533 8 1\n");
        assert_eq!((outside(&map, AGENT_ID), outside(&map, 33)), (Some(7), None));
    }
}
