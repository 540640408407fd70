//! Sockets that Firecracker made in its jail. Their directory belongs to the jailed user, who may be hostile
//! once the guest runs.

use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use tokio::net::UnixStream;

/// A socket with the user that must own it.
#[derive(Debug, Clone)]
pub(super) struct OwnedSocket {
    path: PathBuf,
    owner: u32,
}

impl OwnedSocket {
    /// Names the socket at this path; `connect` checks its owner.
    pub(super) fn new(path: PathBuf, owner: u32) -> Self {
        Self { path, owner }
    }

    /// Connects to the checked file by its descriptor. No link is followed, nobody can replace the file in
    /// between, and the path may have any length.
    pub(super) async fn connect(&self) -> io::Result<UnixStream> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let socket = openat(CWD, &self.path, flags, Mode::empty())?;
        let found = fstat(&socket)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::Socket || found.st_uid != self.owner {
            return Err(replaced(&self.path));
        }
        UnixStream::connect(format!("/proc/self/fd/{}", socket.as_raw_fd())).await
    }
}

fn replaced(path: &Path) -> io::Error {
    let message = format!("what is at {} is not Firecracker's socket", path.display());
    io::Error::new(io::ErrorKind::PermissionDenied, message)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tokio::net::UnixListener;

    use super::*;

    /// D7: the jailed user can put a link to another program's socket in the place of its own.
    #[tokio::test]
    async fn a_planted_link_or_anothers_socket_is_not_spoken_to() {
        let folder = tempfile::tempdir().unwrap();
        let owner = rustix::process::geteuid().as_raw();
        let (good, link) = (folder.path().join("good.sock"), folder.path().join("link.sock"));
        let _listener = UnixListener::bind(&good).unwrap();
        symlink("good.sock", &link).unwrap();
        let refused = |path: &Path, owner| {
            let socket = OwnedSocket::new(path.to_owned(), owner);
            async move { socket.connect().await.map(drop).map_err(|error| error.kind()) }
        };
        assert_eq!(refused(&good, owner).await, Ok(()));
        assert_eq!(refused(&link, owner).await, Err(io::ErrorKind::PermissionDenied));
        assert_eq!(refused(&good, owner + 1).await, Err(io::ErrorKind::PermissionDenied));
        assert_eq!(refused(&folder.path().join("none"), owner).await, Err(io::ErrorKind::NotFound));
    }
}
