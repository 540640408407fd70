//! Lets a server without privileges reach its data folder below a folder that is closed to it, such as root's home.
//!
//! The process gets mounts of its own. There an empty folder covers the closed one, and holds nothing but the way to the data
//! folder, under the same path. The host's mounts stay as they are. Needs a process with one thread.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_change, move_mount,
    open_tree,
};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use sandyard_sandbox::warden::ServerUser;

/// Content of the covering folder: a few folders and nothing else.
const COVER: &CStr = c"mode=0755,size=64k,nr_inodes=64";

/// Makes the paths reachable for that user. Does nothing for paths that are.
pub(super) fn open_ways(paths: &[&Path], user: ServerUser) -> io::Result<()> {
    let closed: Vec<_> =
        paths.iter().filter_map(|path| Some((*path, closed_ancestor(path, user)?))).collect();
    if closed.is_empty() {
        return Ok(());
    }
    // Taken before anything is covered.
    let trees: Vec<_> =
        closed.iter().map(|(path, _)| Ok((path.is_dir(), tree(path)?))).collect::<io::Result<_>>()?;
    own_mounts()?;
    let mut covers: Vec<&PathBuf> = closed.iter().map(|(_, cover)| cover).collect();
    covers.sort();
    covers.dedup();
    for cover in covers {
        mount(c"sandyard", cover.as_path(), c"tmpfs", MountFlags::NOSUID | MountFlags::NODEV, COVER)?;
    }
    for ((path, _), (is_folder, tree)) in closed.iter().zip(trees) {
        place(path, is_folder)?;
        move_mount(&tree, c"", CWD, *path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    }
    Ok(())
}

/// Returns the first folder on the way that the user may not search. Access lists are not read: a way that they open is opened
/// once more.
fn closed_ancestor(path: &Path, user: ServerUser) -> Option<PathBuf> {
    let above: Vec<_> = path.ancestors().skip(1).collect();
    let is_closed = |folder: &&&Path| {
        fs::metadata(folder).is_ok_and(|found| {
            let searched = match (found.uid() == user.uid, found.gid() == user.gid) {
                (true, _) => 0o100,
                (false, true) => 0o010,
                (false, false) => 0o001,
            };
            found.mode() & searched == 0
        })
    };
    above.iter().rev().find(is_closed).map(|folder| folder.to_path_buf())
}

fn tree(path: &Path) -> io::Result<OwnedFd> {
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    Ok(open_tree(CWD, path, flags)?)
}

/// Gives this process mounts that the host does not see.
#[expect(unsafe_code, reason = "unshare is unsafe only where descriptors are unshared")]
fn own_mounts() -> io::Result<()> {
    // SAFETY: only the mounts are unshared; descriptors stay shared with nobody else, since there is no other thread.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
    // What the operator mounts later still appears here, but nothing of this process on the host.
    Ok(mount_change(c"/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?)
}

/// Makes the place at which a tree is mounted: a folder for a folder, a file for a file.
fn place(path: &Path, is_folder: bool) -> io::Result<()> {
    let folder = if is_folder { Some(path) } else { path.parent() };
    if let Some(folder) = folder {
        fs::DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
    }
    if is_folder { Ok(()) } else { fs::File::create(path).map(drop) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const SERVER: ServerUser = ServerUser { uid: 65_530, gid: 65_530 };

    #[test]
    fn the_outermost_closed_folder_is_found() {
        let home = tempfile::tempdir().unwrap();
        let data = home.path().join("a/b/data");
        fs::create_dir_all(&data).unwrap();
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(closed_ancestor(&data, SERVER).as_deref(), Some(home.path()));
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o711)).unwrap();
        assert_eq!(closed_ancestor(&data, SERVER), None);
        fs::set_permissions(home.path().join("a/b"), fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(closed_ancestor(&data, SERVER), Some(home.path().join("a/b")));
    }
}
