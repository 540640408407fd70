//! The disk of a sandbox and its file systems in memory, mounted where the engine finds them while it starts
//! the container. Engines can make file systems in memory too, but Podman's have neither an owner nor a limit
//! on files.
//!
//! The container's own mounts keep them afterwards, so none stays on the host; the kernel frees the loop
//! device with the last mount. Owners on the disk are mapped to the sandbox's ids. Blocks.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountAttrFlags, MoveMountFlags, UnmountFlags, move_mount, unmount};
use sandyard_protocol::MemoryMount;

use crate::driver::SandboxId;
use crate::host::sandboxes::folders;
use crate::host::sandboxes::ids::{self, Extent};
use crate::host::storage::{file_systems, image_disk, private_view};
use crate::host::sys::{mounts, users};

/// Flags of every mount: no set-user-id files, no devices.
const PLAIN: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NODEV);

/// Directory in which disks are mounted for a moment.
#[derive(Debug, Clone)]
pub(super) struct DiskStage {
    directory: PathBuf,
}

/// Contents of the stage.
pub(super) struct DockerStageProps<'a> {
    pub(super) disk: &'a Path,
    /// Directory on the host with the guest's programs.
    pub(super) programs: &'a Path,
    pub(super) memory: &'a [MemoryMount],
    /// First of the sandbox's ids on the host.
    pub(super) first_id: u32,
    pub(super) map: &'a [Extent],
}

#[derive(Debug)]
pub(super) struct StagedDisk {
    pub(super) disk: PathBuf,
    /// The sandbox's own view of the guest's programs.
    pub(super) programs: PathBuf,
    /// File systems in memory, each with its target in the container.
    pub(super) memory: Vec<(PathBuf, String)>,
}

impl DiskStage {
    /// Opens the directory, which only root can enter.
    pub(super) fn open(data: &Path) -> io::Result<Self> {
        let directory = data.join("stage");
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        Ok(Self { directory })
    }

    /// Mounts everything for a sandbox and returns the places. One mount carries the others, which are removed with it.
    pub(super) fn mount(&self, id: &SandboxId, props: &DockerStageProps<'_>) -> io::Result<StagedDisk> {
        self.clear(id)?;
        let place = self.place(id);
        fs::create_dir(&place)?;
        let floor = [("size", "64k".to_owned()), ("nr_inodes", "32".to_owned()), ("mode", "700".to_owned())];
        // This mount comes first and carries the others: one lazy unmount then removes them all.
        put(&file_systems::create("tmpfs", &floor, PLAIN | MountAttrFlags::MOUNT_ATTR_NOEXEC)?, &place)?;
        let namespace = users::user_namespace(&ids::map_text(props.map), ids::owner(props.map))?;
        let disk = image_disk::mount(props.disk)?;
        mounts::restrict(disk.as_fd(), PLAIN, Some(namespace.as_fd()))?;
        let mut staged =
            StagedDisk { disk: place.join("disk"), programs: place.join("programs"), memory: Vec::new() };
        fs::create_dir(&staged.disk)?;
        put(&disk, &staged.disk)?;
        let blank = place.join("blank");
        DirBuilder::new().mode(0o755).create(&blank)?;
        fs::create_dir(&staged.programs)?;
        put(&view_of(props.programs, &blank)?, &staged.programs)?;
        for (number, memory) in props.memory.iter().enumerate() {
            let path = place.join(number.to_string());
            fs::create_dir(&path)?;
            let (options, flags) = options(memory, props.first_id);
            put(&file_systems::create("tmpfs", &options, flags)?, &path)?;
            staged.memory.push((path, memory.target.clone()));
        }
        Ok(staged)
    }

    /// Unmounts a sandbox's stage. Never removes files below a mount: a place that can't be unmounted stays.
    pub(super) fn clear(&self, id: &SandboxId) -> io::Result<()> {
        let place = self.place(id);
        // A killed server may have mounted more than once; each pass removes the topmost mount.
        loop {
            match unmount(&place, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
                Ok(()) => {}
                Err(Errno::INVAL | Errno::NOENT) => break,
                Err(error) => return Err(error.into()),
            }
        }
        // `remove_dir`, never `remove_dir_all`: below a mount that is still there lie the job's files.
        match fs::remove_dir(&place) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Returns every sandbox that has a place.
    pub(super) fn ids(&self) -> io::Result<Vec<SandboxId>> {
        folders::ids_in(&self.directory)
    }

    fn place(&self, id: &SandboxId) -> PathBuf {
        self.directory.join(id.as_str())
    }
}

/// Makes the sandbox's own view of a directory. Containers with one directory would share its inodes.
fn view_of(directory: &Path, blank: &Path) -> io::Result<OwnedFd> {
    let open = |path: &Path| {
        rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
    };
    private_view::make(open(blank)?.as_fd(), open(directory)?.as_fd(), PLAIN)
}

fn put(mount: &OwnedFd, target: &Path) -> io::Result<()> {
    Ok(move_mount(mount, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

/// Returns options and flags of a file system in memory that belongs to the sandbox's ids on the host.
fn options(memory: &MemoryMount, first_id: u32) -> ([(&'static str, String); 5], MountAttrFlags) {
    let owner = (first_id + memory.owner).to_string();
    let options = [
        ("size", memory.size_bytes.to_string()),
        ("nr_inodes", memory.inodes.to_string()),
        ("mode", format!("{:o}", memory.mode)),
        ("uid", owner.clone()),
        ("gid", owner),
    ];
    let flags = if memory.target == "/run" { PLAIN | MountAttrFlags::MOUNT_ATTR_NOEXEC } else { PLAIN };
    (options, flags)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::layout;

    #[test]
    fn memory_belongs_to_the_sandboxs_own_ids_and_is_sized() {
        let all = layout::memory_mounts(100);
        let of = |target: &str| {
            let memory = all.iter().find(|memory| memory.target == target).unwrap();
            let (options, flags) = options(memory, 0x4000_0000);
            let options: Vec<_> = options.iter().map(|(key, value)| format!("{key}={value}")).collect();
            (options.join(","), flags.contains(MountAttrFlags::MOUNT_ATTR_NOEXEC))
        };
        let (user, noexec) = of("/run/user/1000");
        assert_eq!(user, "size=67108864,nr_inodes=16384,mode=700,uid=1073742824,gid=1073742824");
        assert!(!noexec && of("/run").1);
        assert!(of("/dev/shm").0.starts_with("size=52428800,"));
    }
}
