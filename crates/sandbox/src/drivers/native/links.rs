//! Where sandboxes dial: a directory for each on the host, mounted inside, with a socket that any server may replace.
//!
//! The directory is root's and only searchable by keeper, so that nobody inside can put anything in the socket's place.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::{UnixListener, UnixStream};

use super::layout::{KEEPER_ID, LINK_SOCKET};
use crate::driver::SandboxId;

/// The listening ends of a yard.
#[derive(Debug)]
pub(super) struct Links {
    run: PathBuf,
    listeners: Mutex<HashMap<SandboxId, Arc<UnixListener>>>,
}

impl Links {
    /// Opens the directory in which sandboxes get theirs.
    pub(super) fn open(run: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(run)?;
        Ok(Self { run: run.to_owned(), listeners: Mutex::default() })
    }

    /// The directory that is mounted inside.
    pub(super) fn directory(&self, id: &SandboxId) -> PathBuf {
        self.run.join(id.as_str()).join("link")
    }

    /// Makes the directory of a new sandbox and listens in it.
    pub(super) fn create(&self, id: &SandboxId, id_base: u32) -> io::Result<()> {
        let directory = self.directory(id);
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        chown(&directory, Some(0), Some(id_base + KEEPER_ID))?;
        fs::set_permissions(&directory, Permissions::from_mode(0o710))?;
        self.listen(id, id_base).map(drop)
    }

    /// The listener of a sandbox, made if this process has none yet: after a restart, the first call replaces the dead
    /// server's socket and keeper dials again.
    fn listen(&self, id: &SandboxId, id_base: u32) -> io::Result<Arc<UnixListener>> {
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(listener) = listeners.get(id) {
            return Ok(listener.clone());
        }
        let listener = Arc::new(bind(&self.directory(id), id_base + KEEPER_ID)?);
        listeners.insert(id.clone(), listener.clone());
        Ok(listener)
    }

    /// The next connection.
    pub(super) async fn accept(&self, id: &SandboxId, id_base: u32) -> io::Result<UnixStream> {
        let listener = self.listen(id, id_base)?;
        Ok(listener.accept().await?.0)
    }

    /// Stops listening and removes the directory; harmless if there is none.
    pub(super) fn remove(&self, id: &SandboxId) -> io::Result<()> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        match fs::remove_dir_all(self.run.join(id.as_str())) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Every sandbox that has a directory.
    pub(super) fn ids(&self) -> io::Result<Vec<SandboxId>> {
        let mut ids = Vec::new();
        for entry in fs::read_dir(&self.run)? {
            ids.extend(entry?.file_name().to_str().and_then(SandboxId::parse));
        }
        Ok(ids)
    }
}

/// Binds a fresh socket that only `group` and root can connect to.
fn bind(directory: &Path, group: u32) -> io::Result<UnixListener> {
    // Through a descriptor, because a socket's path may have 107 bytes and a data directory's may have more.
    let handle = File::open(directory)?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", handle.as_raw_fd())).join(LINK_SOCKET);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&path)?;
    chown(&path, Some(0), Some(group))?;
    fs::set_permissions(&path, Permissions::from_mode(0o660))?;
    Ok(listener)
}
