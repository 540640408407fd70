//! The owners of a data folder whose server is not root: what drivers keep is root's, the rest is the server's.
//!
//! The folder itself belongs to root and has the sticky bit. The server makes and removes files of its own in it, and can
//! neither exchange nor remove those of the drivers. A folder from a server that was root is given over once; files are given by
//! descriptor, never through a link, and none that has a second name elsewhere.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat};
use rustix::process::{Gid, Uid};
use sandyard_sandbox::drivers::{CATALOGUE, DriverStage, catalogue};
use sandyard_sandbox::warden::ServerUser;

/// Folders that the native driver keeps in the data folder itself. The other drivers have one of their name.
const NATIVE_FOLDERS: [&str; 4] = ["programs", "run", "sandboxes", "stock"];
/// File with the yard's id, which names control groups.
const YARD_FILE: &str = "yard";
const JOBS: &str = "jobs";
const WORKSPACE: &str = "workspace";
/// The server's socket. A dead server's is removed: it may belong to another user.
const SOCKET: &str = "sandyard.sock";
/// The key of the API, which an operator may write by hand.
const KEY_FILE: &str = "api.key";
const SHARED: Mode = Mode::from_raw_mode(0o1770);
const OWN: Mode = Mode::from_raw_mode(0o700);
const LOOK: Mode = Mode::from_raw_mode(0o750);
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Gives the data folder its owners. With `all`, files that a server of root left are given to the server too.
pub(super) fn settle(data: &Path, server: ServerUser, all: bool) -> io::Result<()> {
    let folder = rustix::fs::openat(CWD, data, FOLDER.difference(OFlags::NOFOLLOW), Mode::empty())?;
    let found = rustix::fs::fstat(&folder)?;
    refuse_others(data, &found, server)?;
    share(&folder, server)?;
    for name in drivers_folders() {
        let made = made(&folder, name)?;
        require_root(name, &made)?;
    }
    if let Some(seed) = present(handle(&folder, OsStr::new(YARD_FILE)))? {
        require_root(YARD_FILE, &seed)?;
    }
    let jobs = made(&folder, JOBS)?;
    if rustix::fs::fstat(&jobs)?.st_uid != 0 {
        rustix::fs::fchown(&jobs, Some(Uid::ROOT), None)?;
    }
    share(&jobs, server)?;
    present(rustix::fs::unlinkat(&folder, SOCKET, AtFlags::empty()).map_err(io::Error::from))?;
    // An operator who changes the key does so as root, at any time between two starts.
    give_content(&folder, server, &|name| name != KEY_FILE)?;
    if all {
        let kept =
            |name: &OsStr| name == JOBS || name == YARD_FILE || drivers_folders().any(|kept| kept == name);
        give_content(&folder, server, &kept)?;
        for name in names(&jobs)? {
            give_job(&jobs, &name, server)?;
        }
    }
    Ok(())
}

fn drivers_folders() -> impl Iterator<Item = &'static str> {
    let others =
        CATALOGUE.iter().filter(|entry| entry.stage == DriverStage::Built && **entry != catalogue::NATIVE);
    NATIVE_FOLDERS.into_iter().chain(others.map(|entry| entry.name))
}

/// Refuses a folder in which another user than root and the server could exchange files.
fn refuse_others(data: &Path, found: &Stat, server: ServerUser) -> io::Result<()> {
    let mode = found.st_mode & 0o7777;
    let reason = if found.st_uid != 0 && found.st_uid != server.uid {
        format!("it belongs to user {}; make it root's with chown", found.st_uid)
    } else if mode & 0o002 != 0 || (mode & 0o020 != 0 && mode != SHARED.as_raw_mode()) {
        format!("other users can write to it (mode {mode:o}); run chmod go-w {}", data.display())
    } else {
        return Ok(());
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
}

/// Opens a folder of root to files of the server.
fn share(folder: &impl AsFd, server: ServerUser) -> io::Result<()> {
    rustix::fs::fchown(folder, Some(Uid::ROOT), Some(Gid::from_raw(server.gid)))?;
    // After the change of owner, which clears none of these bits for a folder; before it, the old owner could undo them.
    Ok(rustix::fs::fchmod(folder, SHARED)?)
}

/// A folder that the server made could hold anything, and drivers would trust it.
fn require_root(name: &str, file: &impl AsFd) -> io::Result<()> {
    match rustix::fs::fstat(file)?.st_uid {
        0 => Ok(()),
        other => {
            let reason = format!("`{name}` belongs to user {other}, not to root; remove it");
            Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
        }
    }
}

/// Gives the folder of a job. Its workspace stays root's, and so does the folder around it, or the server could exchange it.
fn give_job(jobs: &OwnedFd, name: &OsStr, server: ServerUser) -> io::Result<()> {
    let Some(folder) = present(rustix::fs::openat(jobs, name, FOLDER, Mode::empty()).map_err(Into::into))?
    else {
        return Ok(());
    };
    give_content(&folder, server, &|name| name == WORKSPACE)?;
    let workspace =
        present(rustix::fs::openat(&folder, WORKSPACE, FOLDER, Mode::empty()).map_err(Into::into))?;
    if let Some(workspace) = workspace
        && require_root(WORKSPACE, &workspace).is_ok()
    {
        share(&folder, server)?;
        return let_look(&workspace, server);
    }
    rustix::fs::fchmod(&folder, OWN)?;
    give(&folder, server)
}

/// Lets the server see how much the disks of a workspace take, and no more. Only root could put a name there.
fn let_look(workspace: &OwnedFd, server: ServerUser) -> io::Result<()> {
    for name in names(workspace)? {
        let found = rustix::fs::statat(workspace, name.as_ref(), AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(found.st_mode) == FileType::RegularFile {
            rustix::fs::chmodat(workspace, name.as_ref(), Mode::RUSR | Mode::WUSR, AtFlags::empty())?;
        }
    }
    rustix::fs::fchown(workspace, None, Some(Gid::from_raw(server.gid)))?;
    Ok(rustix::fs::fchmod(workspace, LOOK)?)
}

/// Gives all files of a folder but those that are `kept`, with all below them.
fn give_content(folder: &OwnedFd, server: ServerUser, kept: &dyn Fn(&OsStr) -> bool) -> io::Result<()> {
    for name in names(folder)?.iter().filter(|name| !kept(name)) {
        let Some(file) = present(handle(folder, name))? else { continue };
        let found = rustix::fs::fstat(&file)?;
        match FileType::from_raw_mode(found.st_mode) {
            FileType::Directory => {
                give(&file, server)?;
                let inner = rustix::fs::openat(folder, name.as_ref(), FOLDER, Mode::empty())?;
                give_content(&inner, server, &|_| false)?;
            }
            // A file of root with another name elsewhere may be any file of the host.
            FileType::RegularFile if found.st_uid == 0 && found.st_nlink == 1 => give(&file, server)?,
            _ => {}
        }
    }
    Ok(())
}

fn give(file: &impl AsFd, server: ServerUser) -> io::Result<()> {
    let (uid, gid) = (Some(Uid::from_raw(server.uid)), Some(Gid::from_raw(server.gid)));
    Ok(rustix::fs::chownat(file, "", uid, gid, AtFlags::EMPTY_PATH)?)
}

/// Opens a name without following it and without reading what it names.
fn handle(folder: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(folder, name, flags, Mode::empty())?)
}

fn made(folder: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    match rustix::fs::mkdirat(folder, name, OWN) {
        Err(error) if error != rustix::io::Errno::EXIST => return Err(error.into()),
        _ => {}
    }
    Ok(rustix::fs::openat(folder, name, FOLDER, Mode::empty())?)
}

fn names(folder: &OwnedFd) -> io::Result<Vec<Box<OsStr>>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            names.push(name.into());
        }
    }
    Ok(names)
}

/// Turns an error that says that a file is missing, or is not a folder, into `None`.
fn present<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => Ok(None),
        found => found.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};

    use super::*;

    const SERVER: ServerUser = ServerUser { uid: 65_530, gid: 65_530 };

    fn owner(path: &Path) -> (u32, u32) {
        let found = fs::symlink_metadata(path).unwrap();
        (found.uid(), found.mode() & 0o7777)
    }

    /// Files can be given away by root only.
    fn folder() -> Option<tempfile::TempDir> {
        rustix::process::geteuid().is_root().then(|| tempfile::tempdir().unwrap())
    }

    #[test]
    fn a_folder_of_root_is_given_over_but_for_what_drivers_keep() {
        let Some(data) = folder() else { return };
        let at = |name: &str| data.path().join(name);
        for name in ["jobs/live/workspace", "jobs/live/logs", "jobs/ended/logs", "sandboxes/one", "scratch"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        for name in
            ["yard", "yard.db", "jobs/live/logs/1", "jobs/live/workspace/disk.ext4", "jobs/ended/output.zip"]
        {
            fs::write(at(name), "").unwrap();
        }
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("shadow"), "").unwrap();
        fs::hard_link(outside.path().join("shadow"), at("scratch/planted")).unwrap();
        symlink(outside.path(), at("scratch/link")).unwrap();
        settle(data.path(), SERVER, true).unwrap();
        settle(data.path(), SERVER, true).unwrap();
        assert_eq!(owner(data.path()), (0, 0o1770));
        assert_eq!(owner(&at("jobs")), (0, 0o1770));
        assert_eq!(owner(&at("jobs/live")), (0, 0o1770));
        assert_eq!(owner(&at("jobs/live/workspace")), (0, 0o750));
        assert_eq!(owner(&at("jobs/live/workspace/disk.ext4")), (0, 0o600));
        assert_eq!(owner(&at("jobs/ended")), (SERVER.uid, 0o700));
        for mine in ["yard.db", "jobs/live/logs", "jobs/live/logs/1", "jobs/ended/output.zip", "scratch"] {
            assert_eq!(owner(&at(mine)).0, SERVER.uid, "{mine}");
        }
        for kept in [
            "yard",
            "sandboxes",
            "sandboxes/one",
            "stock",
            "docker",
            "jobs/live/workspace/disk.ext4",
            "scratch/planted",
        ] {
            assert_eq!(owner(&at(kept)).0, 0, "{kept}");
        }
        assert_eq!(owner(outside.path()).0, 0);
    }

    #[test]
    fn folders_that_others_could_have_filled_are_refused() {
        let Some(data) = folder() else { return };
        fs::create_dir(data.path().join("docker")).unwrap();
        chown(data.path().join("docker"), Some(SERVER.uid), None).unwrap();
        assert!(settle(data.path(), SERVER, false).unwrap_err().to_string().contains("docker"));
        let Some(open) = folder() else { return };
        fs::set_permissions(open.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(settle(open.path(), SERVER, false).unwrap_err().to_string().contains("chmod"));
        let Some(foreign) = folder() else { return };
        chown(foreign.path(), Some(1234), None).unwrap();
        assert!(settle(foreign.path(), SERVER, false).unwrap_err().to_string().contains("1234"));
    }
}
