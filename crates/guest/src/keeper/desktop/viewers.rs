//! Viewers: bytes of the remote framebuffer protocol between the host and the X server's socket. What may pass towards the
//! desktop is the host's to decide; keeper holds the control lock and moves bytes no faster than they are taken.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::fs::{FileType, Mode, OFlags};
use sandyard_protocol::{DesktopMode, GuestError, GuestErrorCode, Reply};
use tokio::net::UnixStream;

use super::control::Held;
use super::session::{self, SOCKET};
use super::{Served, internal};
use crate::keeper::Keeper;
use crate::keeper::limits::CONNECT_DEADLINE;
use crate::keeper::link::HostStream;

/// Viewers at once; more are told so.
const MOST_VIEWERS: usize = 64;
/// Bytes on their way to a viewer: the X server writes 16 KiB at a time, and fewer, larger pieces cost fewer switches.
const PIXEL_BYTES: usize = 256 * 1024;
/// Bytes on their way to the desktop: keys and pointer.
const INPUT_BYTES: usize = 16 * 1024;
/// A server that says nothing for this long after a viewer came is not one.
const SILENCE: Duration = Duration::from_secs(20);

/// A place among the viewers; dropping it leaves.
pub(super) struct Seat {
    keeper: Arc<Keeper>,
    control: Option<Held>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        count(&self.keeper).fetch_sub(1, Ordering::Relaxed);
        drop(self.control.take());
        self.keeper.desktop.used.now();
    }
}

fn count(keeper: &Keeper) -> &AtomicUsize {
    &keeper.desktop.viewers
}

/// Serves `ConnectDesktop`.
pub(super) async fn serve(keeper: &Arc<Keeper>, mode: DesktopMode, mut stream: HostStream) -> Served {
    // The host says nothing before it is answered: whatever comes is that it has left, and control must not wait for it.
    let entered = tokio::select! {
        entered = enter(keeper, &mode) => entered,
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
            tokio::io::copy_bidirectional_with_sizes(&mut host, &mut server, INPUT_BYTES, PIXEL_BYTES).await;
    }
    drop(seat);
    Ok(())
}

/// Takes a seat, and control if that is wanted; then connects.
pub(super) async fn enter(
    keeper: &Arc<Keeper>,
    mode: &DesktopMode,
) -> Result<(UnixStream, Seat), GuestError> {
    if count(keeper).fetch_add(1, Ordering::Relaxed) >= MOST_VIEWERS {
        count(keeper).fetch_sub(1, Ordering::Relaxed);
        return Err(GuestError::new(GuestErrorCode::LimitReached, "too many viewers look at this desktop"));
    }
    let mut seat = Seat { keeper: keeper.clone(), control: None };
    if let DesktopMode::Control { who } = mode {
        seat.control = Some(keeper.desktop.control.take(who).map_err(|holder| controlled(&holder))?);
    }
    let places = session::ensure(keeper).await?;
    let server = connect(&places.socket_directory.join(SOCKET))
        .await
        .map_err(|error| internal(format!("connect to the desktop: {error}")))?;
    // A server that never greets would hold the seat for ever without a client noticing.
    match tokio::time::timeout(SILENCE, server.readable()).await {
        Ok(Ok(())) => Ok((server, seat)),
        _ => Err(internal("the desktop does not greet")),
    }
}

/// The refusal while somebody has control.
pub(super) fn controlled(who: &str) -> GuestError {
    GuestError::new(GuestErrorCode::Controlled, format!("{who} controls the desktop"))
}

/// Connects to a socket in a place where the job can put things. Opened first, so that what is looked at is what is
/// connected to: not a link, and nothing but a socket of another user than keeper, whose own sockets lead to the host.
pub(super) async fn connect(path: &Path) -> io::Result<UnixStream> {
    let socket = rustix::fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let facts = rustix::fs::fstat(&socket)?;
    let foreign = FileType::from_raw_mode(facts.st_mode) != FileType::Socket
        || facts.st_uid == rustix::process::geteuid().as_raw()
        || facts.st_uid == 0;
    if foreign {
        return Err(io::Error::from(io::ErrorKind::PermissionDenied));
    }
    let by_descriptor = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&socket));
    match tokio::time::timeout(CONNECT_DEADLINE, UnixStream::connect(by_descriptor)).await {
        Ok(connected) => connected,
        Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut)),
    }
}
