//! The display's listening sockets. Keeper makes the X server's socket, as systemd's socket activation does. The socket first has a
//! name of its own: it gets the display's name only when the window manager is ready, so that no program is there before it. The
//! name always leads to a socket: the next socket takes it over from the last one.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::Mode;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::net::{UnixListener, UnixStream};

use crate::keeper::core::KeeperCore;
use crate::keeper::processes::ManagedProcess;
use crate::sys;

/// The display of every program in the machine, whether it runs or not.
pub(super) const DISPLAY_NUMBER: u32 = 1;
/// The display under which the window manager reaches the server before anybody else does.
pub(super) const MANAGED_NUMBER: u32 = 61;
/// Connections that the kernel queues; further ones wait in connect(2).
const MAX_QUEUED: i32 = 128;

/// The X server is ready in 50 ms; on a machine that is busy with twenty of them it takes seconds.
const START_DEADLINE: Duration = Duration::from_secs(30);

/// The sockets and the port of the desktop, and the time for its start.
#[derive(Debug, Clone)]
pub struct DesktopPlaces {
    /// The directory of the display's socket, where every X program looks for it.
    pub display_directory: PathBuf,
    /// The directory of the socket on which the X server speaks VNC; keeper's, writable by the job.
    pub socket_directory: PathBuf,
    /// The port of the page inside the machine.
    pub port: u16,
    /// Longest time for each program of the desktop to start.
    pub start_deadline: Duration,
}

impl Default for DesktopPlaces {
    fn default() -> Self {
        Self {
            display_directory: "/tmp/.X11-unix".into(),
            socket_directory: "/tmp/.sandyard".into(),
            port: 6080,
            start_deadline: START_DEADLINE,
        }
    }
}

impl DesktopPlaces {
    /// The desktop of a machine that may take so long to boot: its programs are as slow as its kernel.
    pub(in crate::keeper) fn of_machine(boot_time: Duration) -> Self {
        Self { start_deadline: START_DEADLINE + boot_time, ..Self::default() }
    }
}

/// A listening socket, open to every user of the machine.
#[derive(Debug)]
pub(super) struct DisplaySocket {
    listener: UnixListener,
    path: PathBuf,
}

impl DisplaySocket {
    /// The socket of a server that starts.
    pub(super) fn for_server(places: &DesktopPlaces) -> io::Result<Self> {
        Self::bind(socket_path(places, MANAGED_NUMBER))
    }

    /// The socket under the display's name while there is no server.
    pub(super) fn for_bell(places: &DesktopPlaces) -> io::Result<Self> {
        let bell = Self::bind(places.display_directory.join("bell"))?;
        bell.publish(places)?;
        Ok(bell)
    }

    fn bind(path: PathBuf) -> io::Result<Self> {
        remove(&path)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(&path)?)?;
        // Before `listen`: a program must not find a socket that it can't use.
        rustix::fs::chmod(&path, Mode::from_raw_mode(0o777))?;
        rustix::net::listen(&socket, MAX_QUEUED)?;
        Ok(Self { listener: UnixListener::from_std(socket.into())?, path })
    }

    /// Gives it the display's name, in one step.
    pub(super) fn publish(&self, places: &DesktopPlaces) -> io::Result<()> {
        let new = places.display_directory.join("new");
        remove(&new)?;
        std::fs::hard_link(&self.path, &new)?;
        std::fs::rename(&new, socket_path(places, DISPLAY_NUMBER))
    }

    /// Duplicates the descriptor, for the X server.
    pub(super) fn duplicate(&self) -> io::Result<OwnedFd> {
        Ok(rustix::io::fcntl_dupfd_cloexec(&self.listener, 0)?)
    }

    /// Waits for a connection and leaves it in the queue. The socket is watched during this call only: connections to a server are
    /// none of keeper's business.
    pub(super) async fn called(&self) -> io::Result<()> {
        sys::watch(self.duplicate()?)?.readable().await.map(|_| ())
    }

    /// Accepts the next connection.
    pub(super) async fn accept(&self) -> io::Result<UnixStream> {
        self.listener.accept().await.map(|(caller, _)| caller)
    }
}

/// Removes a socket file, if there is one.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Path of a display's socket.
pub(super) fn socket_path(places: &DesktopPlaces, number: u32) -> PathBuf {
    places.display_directory.join(format!("X{number}"))
}

/// Carries connections to a socket that has lost the display's name to the socket that has it now, for as long as the server lives.
pub(super) async fn carry_to_server(
    core: Arc<KeeperCore>,
    bell: Arc<DisplaySocket>,
    display: PathBuf,
    server: Arc<ManagedProcess>,
) {
    let connections = async {
        while let Ok(connection) = bell.accept().await {
            core.tasks.spawn(carry(connection, display.clone()));
        }
    };
    // Ends with the server: nobody answers behind its name any more. Cancelling `accept` loses no connection, which stays in the
    // queue; accepted ones are carried by tasks of their own.
    tokio::select! {
        () = connections => {}
        _ = server.ended() => {}
    }
}

async fn carry(mut connection: UnixStream, display: PathBuf) {
    if let Ok(mut server) = UnixStream::connect(display).await {
        let _ = tokio::io::copy_bidirectional(&mut connection, &mut server).await;
    }
}
