//! The sockets that sandboxes dial: a directory for each on the host, mounted inside. Any server may replace
//! the socket.
//!
//! The directory belongs to the server, and only keeper may search it, so nobody inside can replace the
//! socket. Root lets keeper in by its group. An ordinary user can't give a file to a subordinate id, but can
//! name the id in an access list.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::XattrFlags;
use tokio::net::{UnixListener, UnixStream};

use crate::driver::SandboxId;
use crate::host::layout::LINK_SOCKET;
use crate::host::sandboxes::folders;

/// Way in which keeper gets access to its socket.
#[derive(Debug, Clone, Copy)]
pub(crate) enum KeeperEntry {
    /// Keeper's group owns directory and socket.
    Group,
    /// The access lists of both name keeper.
    AccessList,
}

/// Listening sockets of a driver's sandboxes.
#[derive(Debug)]
pub(crate) struct SocketLinks {
    run: PathBuf,
    entry: KeeperEntry,
    listeners: Mutex<HashMap<SandboxId, Arc<UnixListener>>>,
}

impl SocketLinks {
    /// Opens the directory that holds the link directories of all sandboxes.
    pub(crate) fn open(run: &Path, entry: KeeperEntry) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(run)?;
        Ok(Self { run: run.to_owned(), entry, listeners: Mutex::default() })
    }

    /// Returns the directory that is mounted inside.
    pub(crate) fn directory(&self, id: &SandboxId) -> PathBuf {
        self.run.join(id.as_str()).join("link")
    }

    /// Makes the directory of a new sandbox and listens in it. `keeper` is keeper's user and group on the
    /// host.
    pub(crate) fn create(&self, id: &SandboxId, keeper: u32) -> io::Result<()> {
        let directory = self.directory(id);
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        self.entry.admit(&directory, keeper, Allowed::Pass)?;
        self.listen(id, keeper).map(drop)
    }

    /// Returns the listener of a sandbox. The first call after a restart replaces the dead server's socket,
    /// and keeper dials again.
    fn listen(&self, id: &SandboxId, keeper: u32) -> io::Result<Arc<UnixListener>> {
        // Held over the bind: two callers would each replace the other's socket, and one would listen on a
        // file that is gone.
        let mut listeners = self.listeners.lock();
        if let Some(listener) = listeners.get(id) {
            return Ok(listener.clone());
        }
        let listener = Arc::new(bind(&self.directory(id), self.entry, keeper)?);
        listeners.insert(id.clone(), listener.clone());
        Ok(listener)
    }

    pub(crate) async fn accept(&self, id: &SandboxId, keeper: u32) -> io::Result<UnixStream> {
        let listener = self.listen(id, keeper)?;
        Ok(listener.accept().await?.0)
    }

    /// Stops listening and removes the directory. Succeeds if there is none.
    pub(crate) fn remove(&self, id: &SandboxId) -> io::Result<()> {
        self.listeners.lock().remove(id);
        folders::remove_folder(&self.run.join(id.as_str()))
    }

    /// Returns every sandbox that has a directory.
    pub(crate) fn ids(&self) -> io::Result<Vec<SandboxId>> {
        folders::ids_in(&self.run)
    }
}

/// An access right of keeper.
#[derive(Debug, Clone, Copy)]
enum Allowed {
    /// Open files in a directory by name.
    Pass,
    /// Connect to a socket.
    Connect,
}

impl KeeperEntry {
    /// Grants keeper one right to a file, and no right to anybody else.
    fn admit(self, path: &Path, keeper: u32, allowed: Allowed) -> io::Result<()> {
        let (owners, keepers) = match allowed {
            Allowed::Pass => (0o700, 0o1),
            Allowed::Connect => (0o600, 0o6),
        };
        match self {
            Self::Group => {
                // The owner stays root: an owner could change the mode.
                chown(path, Some(0), Some(keeper))?;
                fs::set_permissions(path, Permissions::from_mode(owners | keepers << 3))
            }
            Self::AccessList => {
                // The mode is set first: chmod would change the mask of a list that is already there.
                fs::set_permissions(path, Permissions::from_mode(owners))?;
                let list = access_list(owners >> 6, keeper, keepers);
                Ok(rustix::fs::setxattr(path, ACCESS_LIST, &list, XattrFlags::empty())?)
            }
        }
    }
}

/// Attribute that holds a file's access list.
const ACCESS_LIST: &str = "system.posix_acl_access";

/// The list as the kernel stores it (`linux/posix_acl_xattr.h`): a version, then tag, permissions and id of each entry.
fn access_list(owner: u32, user: u32, users: u32) -> Vec<u8> {
    const VERSION: u32 = 2;
    const NO_ID: u32 = u32::MAX;
    // Owner, named user, group, mask (the most that named users and groups get), everybody else.
    let entries: [(u16, u32, u32); 5] =
        [(0x01, owner, NO_ID), (0x02, users, user), (0x04, 0, NO_ID), (0x10, users, NO_ID), (0x20, 0, NO_ID)];
    let mut list = VERSION.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        list.extend(tag.to_le_bytes());
        list.extend(permissions.to_le_bytes().into_iter().take(2));
        list.extend(id.to_le_bytes());
    }
    list
}

/// Binds a fresh socket that only keeper and the server's user can connect to.
fn bind(directory: &Path, entry: KeeperEntry, keeper: u32) -> io::Result<UnixListener> {
    // Binds through a descriptor: a socket's path has at most 107 bytes, and the data directory's may be
    // longer.
    let handle = File::open(directory)?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", handle.as_raw_fd())).join(LINK_SOCKET);
    // A socket file outlives its server, and bind fails where one exists.
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&path)?;
    entry.admit(&path, keeper, Allowed::Connect)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel takes the list, and shows its mask in the place of the group's bits.
    #[test]
    fn an_access_list_lets_in_one_user_alone() {
        let folder = tempfile::tempdir().unwrap();
        KeeperEntry::AccessList.admit(folder.path(), 123_456, Allowed::Pass).unwrap();
        let mode = fs::metadata(folder.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o710);
        let mut list = vec![0; 64];
        let size = rustix::fs::getxattr(folder.path(), ACCESS_LIST, list.as_mut_slice()).unwrap();
        list.truncate(size);
        assert_eq!(list, access_list(0o7, 123_456, 0o1));
    }
}
