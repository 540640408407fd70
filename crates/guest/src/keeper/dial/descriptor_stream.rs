//! A duplex stream over one descriptor that can be polled: a serial line or a socket of a family that tokio does not know.
//!
//! A serial line without a host at its other end reads as ended and can't be written. Either ends the stream, so that the next
//! one begins with a clean registration: the runtime never forgets that a descriptor has hung up.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::sys;

/// A duplex stream over one descriptor.
#[derive(Debug)]
pub struct DescriptorStream {
    descriptor: AsyncFd<OwnedFd>,
}

impl DescriptorStream {
    /// Takes a descriptor that does not block. Must be called within a runtime.
    pub(super) fn new(descriptor: OwnedFd) -> io::Result<Self> {
        Ok(Self { descriptor: sys::watch(descriptor)? })
    }

    /// Returns when it can be written for the first time.
    pub(super) async fn writable(&self) -> io::Result<()> {
        self.descriptor.writable().await.map(drop)
    }

    pub(super) fn descriptor(&self) -> &OwnedFd {
        self.descriptor.get_ref()
    }
}

/// True if there is no host at the other end.
pub(super) fn has_hung_up(descriptor: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(descriptor, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let polled = poll(&mut fds, Some(&now));
    polled.is_err() || fds.iter().any(|fd| fd.revents().intersects(PollFlags::HUP | PollFlags::ERR))
}

impl AsyncRead for DescriptorStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.descriptor.poll_read_ready(context))?;
            let read = guard
                .try_io(|descriptor| Ok(rustix::io::read(descriptor.as_fd(), buffer.initialize_unfilled())?));
            match read {
                Ok(Ok(length)) => {
                    buffer.advance(length);
                    return Poll::Ready(Ok(()));
                }
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                // Ready and yet nothing there: the registration remembers an end.
                Err(_) if has_hung_up(self.descriptor()) => return Poll::Ready(Ok(())),
                Err(_) => {}
            }
        }
    }
}

impl AsyncWrite for DescriptorStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = ready!(self.descriptor.poll_write_ready(context))?;
            match guard.try_io(|descriptor| Ok(rustix::io::write(descriptor.as_fd(), bytes)?)) {
                Ok(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(written) => return Poll::Ready(written),
                Err(_) if has_hung_up(self.descriptor()) => {
                    return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
                }
                Err(_) => {}
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// The descriptor is closed with the stream; a serial line has no half that could end before.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// A terminal behaves like a serial line: one end hangs up when the other is closed.
    #[tokio::test]
    async fn bytes_pass_both_ways_and_a_hang_up_ends_it() {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        theirs.set_nonblocking(true).unwrap();
        let mut stream = DescriptorStream::new(ours.into()).unwrap();
        let mut other = tokio::net::UnixStream::from_std(theirs).unwrap();
        stream.write_all(b"ping").await.unwrap();
        let mut heard = [0; 4];
        other.read_exact(&mut heard).await.unwrap();
        other.write_all(&heard).await.unwrap();
        stream.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"ping");
        drop(other);
        assert_eq!(stream.read(&mut heard).await.unwrap(), 0);
        assert!(stream.write_all(b"x").await.is_err());
        assert!(has_hung_up(stream.descriptor()));
    }
}
