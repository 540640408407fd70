//! The folder of one Firecracker on the host, and its contents.
//!
//! `<jails>/<name>/<program>/<id>/root`, as the jailer lays it out. `<name>` is fresh for each start and
//! belongs to root alone, so nobody can have planted files in it (CVE-2026-1386). `root` belongs to the
//! jailed user, who may do anything in it once the guest runs: the host never follows, owns or trusts
//! anything in it again.

use std::ffi::CString;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, chown};
use std::path::{Path, PathBuf};

use super::owned_socket::OwnedSocket;
use super::sys::Bind;
use crate::driver::SandboxId;
use crate::host::sandboxes::folders::remove_folder;

/// Name of the socket on which Firecracker serves its API.
pub(super) const API_SOCKET: &str = "api.sock";
/// Name of the socket for connections to the guest. Connections of the guest to port N go to `<this>_N`.
pub(super) const VSOCK: &str = "vsock.sock";
/// Most bytes read of a pid file; a pid has at most seven digits.
const PID_BYTES: u64 = 16;

/// All jails of a state.
#[derive(Debug, Clone)]
pub(super) struct Jails {
    folder: PathBuf,
    program: String,
}

/// The jail of one sandbox.
#[derive(Debug, Clone)]
pub(super) struct Jail {
    /// Folder with everything of the jail, closed to all but root.
    pub(super) base: PathBuf,
    /// Folder that the jailed process sees as its root.
    pub(super) root: PathBuf,
    program: String,
}

/// A file of the host that the machine uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) source: PathBuf,
    /// Name of the file in the jail.
    pub(super) name: &'static str,
    /// True if the jailed process can't write it.
    pub(super) read_only: bool,
}

impl Jails {
    /// Opens the folder of jails, and makes it if it is missing. `program` is the name of Firecracker's
    /// program.
    pub(super) fn open(data: &Path, program: &str) -> io::Result<Self> {
        let folder = data.join("jails");
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        // `symlink_metadata` and not `metadata`: a link here would put every jail in a folder of somebody
        // else.
        let found = fs::symlink_metadata(&folder)?;
        let own = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
        if !own || found.mode() & 0o077 != 0 {
            let message = format!("{} is not a folder of this user alone", folder.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
        }
        Ok(Self { folder, program: program.to_owned() })
    }

    /// Names a jail; makes nothing.
    pub(super) fn jail(&self, name: &str, id: &SandboxId) -> Jail {
        let base = self.folder.join(name);
        let root = base.join(&self.program).join(id.as_str()).join("root");
        Jail { base, root, program: self.program.clone() }
    }

    pub(super) fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            names.extend(entry?.file_name().into_string().ok());
        }
        Ok(names)
    }

    /// Removes a jail by its name. Succeeds if there is none. Its processes must be dead.
    pub(super) fn remove(&self, name: &str) -> io::Result<()> {
        remove_folder(&self.folder.join(name))
    }
}

impl Jail {
    /// Makes the folders. Fails if the base exists, since somebody could have planted files in it.
    pub(super) fn create(&self) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(&self.base)?;
        DirBuilder::new().mode(0o700).create(self.sockets())?;
        DirBuilder::new().mode(0o700).recursive(true).create(&self.root)
    }

    /// Returns the folder in which our own sockets are made, out of reach of the jailed user, before they
    /// move to their place.
    pub(super) fn sockets(&self) -> PathBuf {
        self.base.join("sockets")
    }

    /// Returns the socket on which Firecracker, as this user, serves its API.
    pub(super) fn api(&self, owner: u32) -> OwnedSocket {
        OwnedSocket::new(self.root.join(API_SOCKET), owner)
    }

    /// Returns the socket on which Firecracker takes connections to the guest.
    pub(super) fn vsock(&self, owner: u32) -> OwnedSocket {
        OwnedSocket::new(self.root.join(VSOCK), owner)
    }

    /// Writes a small file that only the jailed user can read.
    pub(super) fn write(&self, name: &str, content: &[u8], owner: u32) -> io::Result<()> {
        let path = self.root.join(name);
        // `create_new`, so that an existing file or link is never written through.
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o400).open(&path)?;
        file.write_all(content)?;
        std::os::unix::fs::fchown(&file, Some(owner), Some(owner))
    }

    /// Makes empty files in the places where the jailed process alone will see files of the host.
    pub(super) fn bind(&self, files: &[Placed]) -> io::Result<Vec<Bind>> {
        files.iter().map(|file| self.bind_one(file)).collect()
    }

    fn bind_one(&self, file: &Placed) -> io::Result<Bind> {
        let target = self.root.join(file.name);
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&target)?;
        let text = |path: &Path| CString::new(path.as_os_str().as_bytes()).map_err(io::Error::from);
        Ok(Bind { source: text(&file.source)?, target: text(&target)?, read_only: file.read_only })
    }

    /// Returns the pid that the jailer wrote. To be called before the guest runs, which could change the
    /// file.
    pub(super) fn pid(&self) -> io::Result<i32> {
        let path = self.root.join(format!("{}.pid", self.program));
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
        let mut text = String::new();
        file.take(PID_BYTES).read_to_string(&mut text)?;
        text.trim().parse().map_err(io::Error::other)
    }
}

/// Gives a disk to the user that Firecracker runs as.
pub(super) fn give(disk: &Path, owner: u32) -> io::Result<()> {
    chown(disk, Some(owner), Some(owner))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn one(folder: &Path) -> (Jails, Jail) {
        let jails = Jails::open(folder, "firecracker").unwrap();
        let jail = jails.jail("j1", &SandboxId::parse("one").unwrap());
        (jails, jail)
    }

    #[test]
    fn a_jail_is_laid_out_as_the_jailer_does_and_closed_to_others() {
        let folder = tempfile::tempdir().unwrap();
        let (jails, jail) = one(folder.path());
        jail.create().unwrap();
        assert!(jail.root.ends_with("jails/j1/firecracker/one/root"));
        assert_eq!(fs::metadata(&jail.base).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(jails.names().unwrap(), ["j1"]);
        jails.remove("j1").unwrap();
        jails.remove("j1").unwrap();
        assert_eq!(jails.names().unwrap(), [""; 0]);
    }

    /// D7, CVE-2026-1386: a file that was there before is never used.
    #[test]
    fn a_planted_folder_or_link_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (_, jail) = one(folder.path());
        let canary = tempfile::tempdir().unwrap();
        symlink(canary.path(), &jail.base).unwrap();
        assert_eq!(jail.create().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_dir(canary.path()).unwrap().count(), 0);

        let yard = tempfile::tempdir().unwrap();
        symlink(canary.path(), yard.path().join("jails")).unwrap();
        assert_eq!(Jails::open(yard.path(), "f").unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        let open = tempfile::tempdir().unwrap();
        fs::create_dir(open.path().join("jails")).unwrap();
        fs::set_permissions(open.path().join("jails"), fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(Jails::open(open.path(), "f").unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_pid_is_read_from_a_plain_file_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (_, jail) = one(folder.path());
        jail.create().unwrap();
        fs::write(jail.root.join("firecracker.pid"), "4242").unwrap();
        assert_eq!(jail.pid().unwrap(), 4242);
        fs::rename(jail.root.join("firecracker.pid"), jail.root.join("other")).unwrap();
        symlink("other", jail.root.join("firecracker.pid")).unwrap();
        assert!(jail.pid().is_err());
    }
}
