//! The sockets of a machine, in the folder of its marker. QEMU listens and servers connect, so a machine does
//! not notice a change of servers. A new server finds the sockets by the folder alone, which nobody else can
//! enter.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use tokio::net::UnixStream;

/// Name of the socket of keeper's link.
pub(super) const LINK: &str = "link.sock";
/// Name of the socket on which the machine's first process answers.
pub(super) const CONTROL: &str = "control.sock";

/// Makes a listening socket for QEMU to inherit.
pub(super) fn listen(folder: &Path, name: &str) -> io::Result<OwnedFd> {
    // Before the bind: a socket that others could reach for a moment would be open to their connections.
    fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    let (_handle, path) = short(folder, name)?;
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    Ok(UnixListener::bind(&path)?.into())
}

/// Connects to a socket of a machine. QEMU serves one connection at a time; the next waits in line.
pub(super) async fn connect(folder: &Path, name: &str) -> io::Result<UnixStream> {
    let (_handle, path) = short(folder, name)?;
    UnixStream::connect(path).await
}

/// Returns a path through a descriptor: a socket's path has at most 107 bytes, and a data directory's may be
/// longer.
fn short(folder: &Path, name: &str) -> io::Result<(File, PathBuf)> {
    let handle = File::open(folder)?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", handle.as_raw_fd())).join(name);
    Ok((handle, path))
}
