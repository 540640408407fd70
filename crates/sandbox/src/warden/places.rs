//! The folders in which drivers keep the disks of sandboxes, by name. The server can name one and see how large its disk is.
//!
//! A yard keeps a job's disk in `jobs/<job>/workspace`, beside files of the server. The disk must stay out of the server's
//! reach: the host's kernel mounts it, and a link in its place could lead to a disk of the host. So the workspace belongs to
//! root, and so does every folder above it, with the sticky bit: the server may make files there, but can neither rename nor
//! remove what is not its own. The folder of a job without a workspace belongs to the server.

use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, Stat};
use rustix::process::{Gid, Uid};
use serde::{Deserialize, Serialize};

use crate::driver::SandboxId;

/// Name of the workspace in the folder of its job.
const WORKSPACE: &str = "workspace";
/// Mode of a folder of root in which the server may make files of its own.
pub(crate) const SHARED_MODE: Mode = Mode::from_raw_mode(0o1770);
const OWN_MODE: Mode = Mode::from_raw_mode(0o700);
/// Mode of a workspace. The server's group may list it, because the server counts the space that disks take; it can open none.
const WORKSPACE_MODE: Mode = Mode::from_raw_mode(0o750);

/// Names a workspace: the id of its job, a lower-case DNS label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkspaceName(SandboxId);

impl WorkspaceName {
    /// Accepts a lower-case DNS label.
    pub fn parse(text: &str) -> Option<Self> {
        SandboxId::parse(text).map(Self)
    }

    fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Display for WorkspaceName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// The user that the server runs as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerUser {
    /// User id. Never 0.
    pub uid: u32,
    /// Group id. Never 0.
    pub gid: u32,
}

/// Maps names to the folders of workspaces, and makes and removes them for root.
#[derive(Debug, Clone)]
pub struct WorkspacePlaces {
    parent: PathBuf,
    /// The server's user, if the folders are those of a yard. Without one, a workspace is a folder of `parent`: for tests.
    yard: Option<ServerUser>,
}

impl WorkspacePlaces {
    /// The workspaces of a yard whose server runs as that user.
    pub fn of_yard(data: &Path, server: ServerUser) -> Self {
        Self { parent: data.join("jobs"), yard: Some(server) }
    }

    /// Workspaces as plain folders of `parent`.
    pub fn plain(parent: &Path) -> Self {
        Self { parent: parent.to_owned(), yard: None }
    }

    /// Returns the path of a workspace.
    pub fn path(&self, name: &WorkspaceName) -> PathBuf {
        let folder = self.parent.join(name.as_str());
        if self.yard.is_some() { folder.join(WORKSPACE) } else { folder }
    }

    /// Returns the name of a workspace by its path.
    pub(super) fn name_of(&self, path: &Path) -> Option<WorkspaceName> {
        let name = WorkspaceName::parse(path.strip_prefix(&self.parent).ok()?.iter().next()?.to_str()?)?;
        (self.path(&name) == path).then_some(name)
    }

    /// Makes a workspace, or finds it, and returns its path. Nobody but root can exchange it afterwards.
    pub(super) fn make(&self, name: &WorkspaceName) -> io::Result<PathBuf> {
        let path = self.path(name);
        let Some(server) = self.yard else {
            fs::create_dir_all(&path)?;
            return Ok(path);
        };
        let folder = made(&self.jobs()?, name.as_str())?;
        let found = rustix::fs::fstat(&folder)?;
        if found.st_uid != 0 && found.st_uid != server.uid {
            return Err(foreign(&path, &found));
        }
        // First the folder, then its content: from here on the server can't put anything in the place of the workspace.
        rustix::fs::fchown(&folder, Some(Uid::ROOT), Some(Gid::from_raw(server.gid)))?;
        rustix::fs::fchmod(&folder, SHARED_MODE)?;
        let workspace = made(&folder, WORKSPACE)?;
        let found = rustix::fs::fstat(&workspace)?;
        // One that the server made may hold anything.
        if found.st_uid != 0 {
            return Err(foreign(&path, &found));
        }
        rustix::fs::fchown(&workspace, Some(Uid::ROOT), Some(Gid::from_raw(server.gid)))?;
        rustix::fs::fchmod(&workspace, WORKSPACE_MODE)?;
        Ok(path)
    }

    /// Removes a workspace and gives the folder around it back to the server. Succeeds if there is none.
    pub(super) fn remove(&self, name: &WorkspaceName) -> io::Result<()> {
        let Some(server) = self.yard else { return missing_is_fine(fs::remove_dir_all(self.path(name))) };
        let folder = match opened(&self.jobs()?, name.as_str()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            folder => folder?,
        };
        // A folder that does not belong to root has never had a workspace of ours.
        if rustix::fs::fstat(&folder)?.st_uid != 0 {
            return Ok(());
        }
        missing_is_fine(fs::remove_dir_all(self.path(name)))?;
        // The mode first: with the sticky bit and another owner, the server could not remove the folder.
        rustix::fs::fchmod(&folder, OWN_MODE)?;
        rustix::fs::fchown(&folder, Some(Uid::from_raw(server.uid)), Some(Gid::from_raw(server.gid)))?;
        Ok(())
    }

    /// Opens the folder of all jobs, which only root may have made.
    fn jobs(&self) -> io::Result<OwnedFd> {
        let path = self.parent.as_path();
        let jobs = rustix::fs::openat(CWD, path, FOLDER, Mode::empty())?;
        let found = rustix::fs::fstat(&jobs)?;
        if found.st_uid == 0 { Ok(jobs) } else { Err(foreign(path, &found)) }
    }
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens a folder and makes it first if there is none. Never follows a link.
fn made(parent: &impl AsFd, name: &str) -> io::Result<OwnedFd> {
    match rustix::fs::mkdirat(parent, name, OWN_MODE) {
        Err(error) if error != rustix::io::Errno::EXIST => return Err(error.into()),
        _ => {}
    }
    opened(parent, name)
}

fn opened(parent: &impl AsFd, name: &str) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(parent, name, FOLDER, Mode::empty())?)
}

fn foreign(path: &Path, found: &Stat) -> io::Error {
    let kind = if FileType::from_raw_mode(found.st_mode) == FileType::Directory { "folder" } else { "file" };
    let reason =
        format!("{} belongs to user {}, not to root: this {kind} is not used", path.display(), found.st_uid);
    io::Error::new(io::ErrorKind::PermissionDenied, reason)
}

fn missing_is_fine(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, chown, symlink};

    use super::*;

    const SERVER: ServerUser = ServerUser { uid: 65_530, gid: 65_530 };

    fn yard() -> Option<(tempfile::TempDir, WorkspacePlaces)> {
        // Another user can't give files away.
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        let data = tempfile::tempdir().unwrap();
        fs::create_dir(data.path().join("jobs")).unwrap();
        let places = WorkspacePlaces::of_yard(data.path(), SERVER);
        Some((data, places))
    }

    fn name(text: &str) -> WorkspaceName {
        WorkspaceName::parse(text).unwrap()
    }

    #[test]
    fn a_path_is_a_name_and_back() {
        let places = WorkspacePlaces::of_yard(Path::new("/data"), SERVER);
        assert_eq!(places.path(&name("a")), Path::new("/data/jobs/a/workspace"));
        assert_eq!(places.name_of(Path::new("/data/jobs/a/workspace")), Some(name("a")));
        for other in ["/data/jobs/a", "/data/jobs/../workspace", "/data/jobs/a/b/workspace", "/etc/workspace"]
        {
            assert_eq!(places.name_of(Path::new(other)), None, "{other}");
        }
        assert!(["..", "a/b", "", "A", "-a"].iter().all(|text| WorkspaceName::parse(text).is_none()));
    }

    #[test]
    fn a_workspace_is_roots_and_its_folder_returns_to_the_server() {
        let Some((data, places)) = yard() else { return };
        let folder = data.path().join("jobs/a");
        fs::create_dir(&folder).unwrap();
        chown(&folder, Some(SERVER.uid), Some(SERVER.gid)).unwrap();
        let workspace = places.make(&name("a")).unwrap();
        fs::write(workspace.join("disk.ext4"), "x").unwrap();
        assert_eq!(places.make(&name("a")).unwrap(), workspace);
        let found = fs::metadata(&folder).unwrap();
        assert_eq!((found.uid(), found.gid(), found.mode() & 0o7777), (0, SERVER.gid, 0o1770));
        let made = fs::metadata(&workspace).unwrap();
        assert_eq!((made.uid(), made.gid(), made.mode() & 0o7777), (0, SERVER.gid, 0o750));
        places.remove(&name("a")).unwrap();
        places.remove(&name("a")).unwrap();
        let found = fs::metadata(&folder).unwrap();
        assert_eq!((found.uid(), found.mode() & 0o7777), (SERVER.uid, 0o700));
        assert!(!workspace.exists());
        places.remove(&name("never-made")).unwrap();
    }

    /// A server in wrong hands could otherwise have the host mount or write to any file.
    #[test]
    fn neither_links_nor_folders_of_the_server_are_used() {
        let Some((data, places)) = yard() else { return };
        let victim = tempfile::tempdir().unwrap();
        fs::write(victim.path().join("kept"), "").unwrap();
        symlink(victim.path(), data.path().join("jobs/link")).unwrap();
        assert!(places.make(&name("link")).is_err());
        for job in ["inner", "planted"] {
            fs::create_dir(data.path().join("jobs").join(job)).unwrap();
        }
        symlink(victim.path(), data.path().join("jobs/inner/workspace")).unwrap();
        assert!(places.make(&name("inner")).is_err());
        let planted = data.path().join("jobs/planted/workspace");
        fs::create_dir(&planted).unwrap();
        chown(&planted, Some(SERVER.uid), Some(SERVER.gid)).unwrap();
        let refused = places.make(&name("planted")).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        // The link goes, and nothing behind it.
        places.remove(&name("inner")).unwrap();
        assert!(victim.path().join("kept").exists());
    }
}
