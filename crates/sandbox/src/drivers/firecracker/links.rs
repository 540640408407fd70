//! The sockets that guests dial: a guest's connection to port N of the host arrives at the Unix socket
//! `<vsock>_N` in the jail.
//!
//! The jail's root belongs to the jailed user. A socket is therefore made and given to that user where they
//! can't reach it, and then moved to its place by one rename. The rename follows no link and replaces what is
//! there, such as a dead server's socket.

use std::collections::HashMap;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, lchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::net::{UnixListener, UnixStream};

use super::jail::{Jail, VSOCK};
use crate::driver::SandboxId;

/// Name of a socket before it is in its place.
const NEW: &str = "new.sock";

/// Listening sockets of this process, by sandbox.
#[derive(Debug)]
pub(super) struct FirecrackerLinks {
    port: u32,
    listeners: Mutex<HashMap<SandboxId, Arc<UnixListener>>>,
}

impl FirecrackerLinks {
    /// Creates an empty set. All guests dial this port.
    pub(super) fn new(port: u32) -> Self {
        Self { port, listeners: Mutex::default() }
    }

    /// Listens for a sandbox unless this process does already. `owner` is the jailed user.
    pub(super) fn listen(&self, id: &SandboxId, jail: &Jail, owner: u32) -> io::Result<Arc<UnixListener>> {
        let mut listeners = self.listeners.lock();
        if let Some(listener) = listeners.get(id) {
            return Ok(listener.clone());
        }
        let listener = Arc::new(bind(jail, &format!("{VSOCK}_{}", self.port), owner)?);
        listeners.insert(id.clone(), listener.clone());
        Ok(listener)
    }

    pub(super) async fn accept(&self, id: &SandboxId, jail: &Jail, owner: u32) -> io::Result<UnixStream> {
        let listener = self.listen(id, jail, owner)?;
        Ok(listener.accept().await?.0)
    }

    pub(super) fn forget(&self, id: &SandboxId) {
        self.listeners.lock().remove(id);
    }
}

fn bind(jail: &Jail, name: &str, owner: u32) -> io::Result<UnixListener> {
    let (sockets, root) = (directory(&jail.sockets())?, directory(&jail.root)?);
    // Binds through a descriptor: a socket's path has at most 107 bytes, and a jail's may be longer.
    let new = PathBuf::from(format!("/proc/self/fd/{}", sockets.as_raw_fd())).join(NEW);
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&new)?;
    fs::set_permissions(&new, Permissions::from_mode(0o600))?;
    // Still outside of the jail: after the rename the jailed user could replace the file before the change of
    // owner.
    lchown(&new, Some(owner), Some(owner))?;
    rustix::fs::renameat(&sockets, NEW, &root, name)?;
    Ok(listener)
}

fn directory(path: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW).open(path)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};

    use super::super::jail::Jails;
    use super::*;

    /// D7: a jailed user who plants a link in the socket's place gets a socket there, and the target of the
    /// link is left alone.
    #[tokio::test]
    async fn a_planted_link_is_replaced_and_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let id = SandboxId::parse("one").unwrap();
        let jail = Jails::open(folder.path(), "firecracker").unwrap().jail("j1", &id);
        jail.create().unwrap();
        let victim = folder.path().join("victim");
        fs::write(&victim, "kept").unwrap();
        let place = jail.root.join("vsock.sock_7");
        symlink(&victim, &place).unwrap();
        let owner = rustix::process::geteuid().as_raw();
        let links = FirecrackerLinks::new(7);
        links.listen(&id, &jail, owner).unwrap();
        let found = fs::symlink_metadata(&place).unwrap();
        assert!(found.file_type().is_socket() && found.uid() == owner);
        assert_eq!(found.mode() & 0o777, 0o600);
        assert_eq!(fs::read_to_string(&victim).unwrap(), "kept");

        let (accepted, _) = tokio::join!(links.accept(&id, &jail, owner), UnixStream::connect(&place));
        accepted.unwrap();
        // Another server, in place of one that was killed: its socket is there and nobody listens on it.
        links.forget(&id);
        assert!(UnixStream::connect(&place).await.is_err());
        let successor = FirecrackerLinks::new(7);
        let (accepted, _) = tokio::join!(successor.accept(&id, &jail, owner), UnixStream::connect(&place));
        accepted.unwrap();
    }
}
