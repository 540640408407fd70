//! The disk of a sandbox, mounted where the engine finds it for as long as it takes to start the container.
//!
//! The container's own mounts keep it from then on, so nothing of it stays on the host; the kernel frees the loop device with the last
//! of them. Owners on the disk are mapped to the sandbox's ids. Blocks.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{MountAttrFlags, MoveMountFlags, UnmountFlags, move_mount, unmount};

use crate::driver::SandboxId;
use crate::parts::ids::{self, Extent};
use crate::parts::image_disk;
use crate::parts::sys::{mounts, users};

/// The places where disks are mounted for a moment.
#[derive(Debug, Clone)]
pub(super) struct Stage {
    directory: PathBuf,
}

impl Stage {
    /// Opens the directory of these places, to which nobody but root has access.
    pub(super) fn open(data: &Path) -> io::Result<Self> {
        let directory = data.join("stage");
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        Ok(Self { directory })
    }

    /// Mounts a disk for a sandbox and tells where.
    pub(super) fn mount(&self, id: &SandboxId, disk: &Path, map: &[Extent]) -> io::Result<PathBuf> {
        self.clear(id)?;
        let place = self.place(id);
        fs::create_dir(&place)?;
        let namespace = users::user_namespace(&ids::map_text(map), ids::owner(map))?;
        let mount = image_disk::mount(disk)?;
        let flags = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
        mounts::restrict(mount.as_fd(), flags, Some(namespace.as_fd()))?;
        move_mount(mount.as_fd(), "", CWD, &place, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
        Ok(place)
    }

    /// Takes a sandbox's disk off the stage. Never removes what is below a mount: a place that can't be unmounted stays.
    pub(super) fn clear(&self, id: &SandboxId) -> io::Result<()> {
        let place = self.place(id);
        loop {
            match unmount(&place, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
                Ok(()) => {}
                Err(Errno::INVAL | Errno::NOENT) => break,
                Err(error) => return Err(error.into()),
            }
        }
        match fs::remove_dir(&place) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Every sandbox that has a place.
    pub(super) fn ids(&self) -> io::Result<Vec<SandboxId>> {
        let mut ids = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            ids.extend(entry?.file_name().to_str().and_then(SandboxId::parse));
        }
        Ok(ids)
    }

    fn place(&self, id: &SandboxId) -> PathBuf {
        self.directory.join(id.as_str())
    }
}
