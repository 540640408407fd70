//! Viewers: bytes of the remote framebuffer protocol between the host and the X server's socket. The host filters the messages to
//! the desktop; keeper holds the control lock and moves bytes no faster than the receiver takes them.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::fs::{FileType, Mode, OFlags};
use sandyard_protocol::{DesktopMode, GuestError, GuestErrorCode, Reply};
use tokio::net::UnixStream;

use super::answer::{DesktopAnswer, internal};
use super::control::{ControlGuard, ControlLock, controlled};
use super::programs::SOCKET;
use super::session::DesktopSession;
use crate::keeper::stream::HostStream;
use crate::limits::CONNECT_DEADLINE;

/// Viewers at once; more are refused.
const MAX_VIEWERS: usize = 64;
/// Bytes on their way to a viewer: the X server writes 16 KiB at a time, and fewer, larger pieces cost fewer switches.
const PIXEL_BYTES: usize = 256 * 1024;
/// Bytes on their way to the desktop: keys and pointer.
const INPUT_BYTES: usize = 16 * 1024;
/// The X server greets a viewer within this.
const GREETING_DEADLINE: Duration = Duration::from_secs(20);

/// Connects viewers to the X server.
pub(super) struct Viewers {
    session: Arc<DesktopSession>,
    control: ControlLock,
    count: AtomicUsize,
}

/// The place of one viewer. Dropping it leaves, and gives control back.
pub(super) struct ViewerSeat {
    viewers: Arc<Viewers>,
    control: Option<ControlGuard>,
}

impl Drop for ViewerSeat {
    fn drop(&mut self) {
        self.viewers.count.fetch_sub(1, Ordering::Relaxed);
        drop(self.control.take());
        self.viewers.session.last_use().touch();
    }
}

impl Viewers {
    pub(super) fn new(session: Arc<DesktopSession>, control: ControlLock) -> Self {
        Self { session, control, count: AtomicUsize::new(0) }
    }

    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Serves `ConnectDesktop` until the viewer or the X server leaves.
    pub(super) async fn serve(self: &Arc<Self>, mode: DesktopMode, mut stream: HostStream) -> DesktopAnswer {
        // The host sends nothing before the answer. Anything that arrives means that it has left, and control must be given back: a
        // cancelled `enter` drops its seat, and the seat gives control back.
        let entered = tokio::select! {
            entered = self.enter(&mode) => entered,
            _ = stream.receive() => return Ok(()),
        };
        let (mut server, seat) = match entered {
            Ok(entered) => entered,
            Err(error) => return Err((error, stream)),
        };
        if stream.send_message(&Reply::Done).await.is_err() {
            return Ok(());
        }
        let (mut host, early) = stream.into_inner();
        if tokio::io::AsyncWriteExt::write_all(&mut server, &early).await.is_ok() {
            let _ =
                tokio::io::copy_bidirectional_with_sizes(&mut host, &mut server, INPUT_BYTES, PIXEL_BYTES)
                    .await;
        }
        drop(seat);
        Ok(())
    }

    /// Takes a seat, and control if the viewer wants it; then connects.
    pub(super) async fn enter(
        self: &Arc<Self>,
        mode: &DesktopMode,
    ) -> Result<(UnixStream, ViewerSeat), GuestError> {
        // Counted first and checked after: two viewers at once can't both take the last seat.
        if self.count.fetch_add(1, Ordering::Relaxed) >= MAX_VIEWERS {
            self.count.fetch_sub(1, Ordering::Relaxed);
            return Err(GuestError::new(
                GuestErrorCode::LimitReached,
                "too many viewers look at this desktop",
            ));
        }
        let mut seat = ViewerSeat { viewers: self.clone(), control: None };
        if let DesktopMode::Control { who } = mode {
            seat.control = Some(self.control.take(who).map_err(|holder| controlled(&holder))?);
        }
        let places = self.session.ensure().await?;
        let server = connect(&places.socket_directory.join(SOCKET))
            .await
            .map_err(|error| internal(format!("connect to the desktop: {error}")))?;
        // A server that never greets would hold the seat for ever without a client noticing.
        match tokio::time::timeout(GREETING_DEADLINE, server.readable()).await {
            Ok(Ok(())) => Ok((server, seat)),
            _ => Err(internal("the desktop does not greet")),
        }
    }
}

/// Connects to a socket in a directory that the job can write. Opens the file first and checks the descriptor: it must be a socket,
/// not a link, and must belong neither to root nor to keeper, whose own sockets lead to the host.
async fn connect(path: &Path) -> io::Result<UnixStream> {
    let socket = rustix::fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let facts = rustix::fs::fstat(&socket)?;
    let foreign = FileType::from_raw_mode(facts.st_mode) != FileType::Socket
        || facts.st_uid == rustix::process::geteuid().as_raw()
        || facts.st_uid == 0;
    if foreign {
        return Err(io::Error::from(io::ErrorKind::PermissionDenied));
    }
    // Through the descriptor that was checked: the job may put something else under the name meanwhile.
    let by_descriptor = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&socket));
    match tokio::time::timeout(CONNECT_DEADLINE, UnixStream::connect(by_descriptor)).await {
        Ok(connected) => connected,
        Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut)),
    }
}
