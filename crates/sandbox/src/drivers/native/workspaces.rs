//! Storage of a sandbox's writable places: a disk image where root can mount one, memory where an ordinary
//! user can't.
//!
//! Either way one cap on bytes and one on files hold for all places together, and a second sandbox on the
//! same workspace finds the files of the first.

use std::fs;
use std::io;
use std::path::Path;

use super::launcher::LOST_WORKSPACE_MARKER;
use super::launcher::messages::{DiskPlan, MemoryDisk, MemoryPlace};
use crate::driver::Limits;
use crate::host::layout::{DISK_PLACES, DiskPlace};
use crate::host::sandboxes::ids::{self, Extent};
use crate::host::storage::disk::{self, Disks, SetAside};

const MIB: u64 = 1024 * 1024;

/// Storage of workspaces.
#[derive(Debug, Clone)]
pub(super) enum Workspaces {
    /// Disk images, some kept in stock.
    OnDisk(Disks),
    /// File systems in memory.
    InMemory,
}

/// The workspace of a start.
pub(super) struct WorkspaceRequest<'a> {
    pub(super) folder: &'a Path,
    pub(super) size_mib: u64,
    /// First of the sandbox's ids.
    pub(super) id_base: u32,
    pub(super) id_map: &'a [Extent],
    /// True if the workspace is in memory already.
    pub(super) exists_in_memory: bool,
}

impl Workspaces {
    /// Returns a blank disk for a slot, where that saves time.
    pub(super) fn set_aside(&self) -> io::Result<Option<SetAside>> {
        match self {
            Self::OnDisk(disks) => disks.set_aside().map(Some),
            Self::InMemory => Ok(None),
        }
    }

    /// Makes blank disks until `wanted` are in stock.
    pub(super) fn restock(&self, wanted: usize) -> io::Result<()> {
        match self {
            Self::OnDisk(disks) => disks.restock(wanted),
            Self::InMemory => Ok(()),
        }
    }

    /// Prepares a workspace, from the disk that was set aside if it fits, and returns how the launcher opens it.
    pub(super) fn prepare(
        &self,
        set_aside: Option<SetAside>,
        request: &WorkspaceRequest<'_>,
    ) -> io::Result<DiskPlan> {
        match self {
            Self::OnDisk(disks) => {
                let (path, parked) = disks.ensure_with(set_aside, request.folder, request.size_mib)?;
                Ok(DiskPlan::Image { path, parked })
            }
            Self::InMemory => in_memory(request),
        }
    }

    /// True if workspaces are disks, false if they are in memory.
    pub(super) fn are_on_disk(&self) -> bool {
        matches!(self, Self::OnDisk(_))
    }

    /// Returns the part of a sandbox's disk that is charged to its memory, in MiB.
    pub(super) fn in_memory_mib(&self, limits: &Limits) -> u64 {
        match self {
            Self::OnDisk(_) => 0,
            Self::InMemory => limits.disk_mib,
        }
    }
}

fn in_memory(request: &WorkspaceRequest<'_>) -> io::Result<DiskPlan> {
    // A marker without a mount means that an earlier workspace is lost. A new, empty one in its place would
    // hide that.
    if !request.exists_in_memory && request.folder.join(LOST_WORKSPACE_MARKER).try_exists()? {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            "the workspace was in memory and is gone: the host was restarted, or the process that held it was ended",
        ));
    }
    let place = |place: &DiskPlace| {
        let owner = ids::outside(request.id_map, place.owner()).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(MemoryPlace { name: place.source.to_owned(), owner, mode: place.mode() })
    };
    Ok(DiskPlan::Memory(MemoryDisk {
        folder: fs::canonicalize(request.folder)?,
        size_bytes: request.size_mib.saturating_mul(MIB),
        inodes: disk::inodes(request.size_mib),
        id_base: request.id_base,
        exists: request.exists_in_memory,
        places: DISK_PLACES.iter().map(place).collect::<io::Result<_>>()?,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::sandboxes::ids::{IdPool, Supply};

    fn request<'a>(folder: &'a Path, id_map: &'a [Extent], exists_in_memory: bool) -> WorkspaceRequest<'a> {
        WorkspaceRequest { folder, size_mib: 64, id_base: 5, id_map, exists_in_memory }
    }

    #[test]
    fn a_workspace_in_memory_is_sized_and_belongs_to_the_sandboxs_own_ids() {
        let map = IdPool::with_taken(Supply::Subordinate { first: 100_000, count: 64 }, []).map(5);
        let folder = tempfile::tempdir().unwrap();
        let plan = Workspaces::InMemory.prepare(None, &request(folder.path(), &map, false)).unwrap();
        let DiskPlan::Memory(disk) = plan else { panic!("{plan:?}") };
        assert_eq!((disk.size_bytes, disk.inodes, disk.id_base), (64 * MIB, 16 * 1024, 5));
        let owners: Vec<_> = disk.places.iter().map(|place| (place.name.as_str(), place.owner)).collect();
        assert_eq!(owners, [("workspace", 7), ("home", 7), ("tmp", 5), ("var-tmp", 5)]);
    }

    #[test]
    fn a_lost_workspace_is_not_taken_for_a_new_one() {
        let map = IdPool::with_taken(Supply::Subordinate { first: 100_000, count: 64 }, []).map(5);
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(LOST_WORKSPACE_MARKER), "").unwrap();
        let error = Workspaces::InMemory.prepare(None, &request(folder.path(), &map, false)).unwrap_err();
        assert!(error.to_string().contains("is gone"), "{error}");
        let plan = Workspaces::InMemory.prepare(None, &request(folder.path(), &map, true)).unwrap();
        assert!(matches!(plan, DiskPlan::Memory(MemoryDisk { exists: true, .. })), "{plan:?}");
    }
}
