//! The display's listening sockets. An X server takes its callers from one that keeper made (as systemd's socket activation does
//! it) and that has a name of its own at first: only when the window manager is ready does it get the display's name, so that no
//! program is there before it. The name never points nowhere: the next socket takes it over from the one before.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::Mode;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::net::{UnixListener, UnixStream};

use super::{DISPLAY_NUMBER, DesktopPlaces};
use crate::sys;

/// The display that the window manager knows the server by, before anybody else does.
pub(super) const MANAGED_NUMBER: u32 = 61;
/// Callers in the queue; the next ones wait in connect(2).
const QUEUE: i32 = 128;

/// A listening socket, open to every user of the machine.
#[derive(Debug)]
pub(super) struct DisplaySocket {
    listener: UnixListener,
    path: PathBuf,
}

impl DisplaySocket {
    /// One for a server that starts.
    pub(super) fn of_a_server(places: &DesktopPlaces) -> io::Result<Self> {
        Self::bind(socket_path(places, MANAGED_NUMBER))
    }

    /// One for callers while there is no server, in the display's place.
    pub(super) fn of_a_bell(places: &DesktopPlaces) -> io::Result<Self> {
        let bell = Self::bind(places.display_directory.join("bell"))?;
        bell.publish(places)?;
        Ok(bell)
    }

    fn bind(path: PathBuf) -> io::Result<Self> {
        remove(&path)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(&path)?)?;
        rustix::fs::chmod(&path, Mode::from_raw_mode(0o777))?;
        rustix::net::listen(&socket, QUEUE)?;
        Ok(Self { listener: UnixListener::from_std(socket.into())?, path })
    }

    /// Gives it the display's name, at once.
    pub(super) fn publish(&self, places: &DesktopPlaces) -> io::Result<()> {
        let new = places.display_directory.join("new");
        remove(&new)?;
        std::fs::hard_link(&self.path, &new)?;
        std::fs::rename(&new, socket_path(places, DISPLAY_NUMBER))
    }

    /// For the X server.
    pub(super) fn duplicate(&self) -> io::Result<OwnedFd> {
        Ok(rustix::io::fcntl_dupfd_cloexec(&self.listener, 0)?)
    }

    /// Waits for a caller and leaves it in the queue. Watched for this long only: a server's callers are none of keeper's business.
    pub(super) async fn called(&self) -> io::Result<()> {
        sys::watch(self.duplicate()?)?.readable().await.map(|_| ())
    }

    /// The next caller.
    pub(super) async fn accept(&self) -> io::Result<UnixStream> {
        self.listener.accept().await.map(|(caller, _)| caller)
    }
}

/// Removes a socket, if there is one.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Where programs look for a display.
pub(super) fn socket_path(places: &DesktopPlaces, number: u32) -> PathBuf {
    places.display_directory.join(format!("X{number}"))
}
