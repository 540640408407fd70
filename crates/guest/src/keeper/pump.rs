//! Moves what a process prints into its capture, until it ends; then goes on reading without keeping, so that what the
//! process left running in the background is neither blocked nor killed by a closed pipe.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

use super::capture::Capture;
use super::segments::Taken;
use crate::limits::{FEW_BYTES, GATHER_TIME, TERMINAL_QUIET};
use crate::sys;

/// Where output comes from.
#[derive(Debug, Clone)]
pub(super) enum Source {
    /// The read end of a pipe.
    Pipe(Arc<AsyncFd<OwnedFd>>),
    /// The master of a terminal.
    Terminal(Arc<AsyncFd<OwnedFd>>),
}

/// How a pump ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pumped {
    /// Nobody can write any more.
    ToTheEnd,
    /// The process ended and what it wrote was taken; somebody else still holds the other end.
    StillHeld,
}

impl Source {
    /// A pipe's read end.
    pub(super) fn pipe(fd: OwnedFd) -> io::Result<Self> {
        Ok(Self::Pipe(Arc::new(watch(fd)?)))
    }

    /// A terminal's master.
    pub(super) fn terminal(fd: OwnedFd) -> io::Result<Self> {
        Ok(Self::Terminal(Arc::new(watch(fd)?)))
    }

    /// The descriptor, ready to wait on.
    pub(super) fn descriptor(&self) -> &Arc<AsyncFd<OwnedFd>> {
        match self {
            Self::Pipe(fd) | Self::Terminal(fd) => fd,
        }
    }

    fn take(&self, capture: &Capture) -> io::Result<Taken> {
        match self {
            Self::Pipe(fd) => capture.take_from_pipe(fd.get_ref()),
            Self::Terminal(fd) => capture.take_from_terminal(fd.get_ref()),
        }
    }

    /// Moves everything up to the end of the process, which `ended` announces. The capture is closed then.
    pub(super) async fn pump(&self, capture: &Capture, mut ended: watch::Receiver<bool>) -> Pumped {
        // An unreadable source has nothing more to give.
        let pumped = self.pump_until_end(capture, &mut ended).await.unwrap_or(Pumped::ToTheEnd);
        capture.close();
        pumped
    }

    async fn pump_until_end(
        &self,
        capture: &Capture,
        ended: &mut watch::Receiver<bool>,
    ) -> io::Result<Pumped> {
        while !*ended.borrow_and_update() {
            tokio::select! {
                ready = self.descriptor().readable() => {
                    let mut ready = ready?;
                    match self.take(capture)? {
                        Taken::Bytes(count) if count < FEW_BYTES => gather(ended).await,
                        Taken::Bytes(_) => tokio::task::yield_now().await,
                        Taken::Nothing => ready.clear_ready(),
                        Taken::End => return Ok(Pumped::ToTheEnd),
                        Taken::Full => capture.wait_for_room().await,
                    }
                }
                _ = ended.changed() => {}
            }
        }
        self.drain(capture).await
    }

    /// Takes what is left after the end.
    async fn drain(&self, capture: &Capture) -> io::Result<Pumped> {
        loop {
            match self.take(capture)? {
                Taken::Bytes(_) => tokio::task::yield_now().await,
                Taken::End => return Ok(Pumped::ToTheEnd),
                Taken::Full => capture.wait_for_room().await,
                Taken::Nothing => match self {
                    Self::Pipe(_) => return Ok(Pumped::StillHeld),
                    // A terminal hands over what it holds a little later than a pipe does.
                    Self::Terminal(fd) => match tokio::time::timeout(TERMINAL_QUIET, fd.readable()).await {
                        Ok(ready) => ready?.clear_ready(),
                        Err(_) => return Ok(Pumped::StillHeld),
                    },
                },
            }
        }
    }

    /// Reads and forgets until nobody can write any more.
    pub(super) async fn discard(&self) {
        let mut buffer = [0; 16 * 1024];
        loop {
            let Ok(mut ready) = self.descriptor().readable().await else { return };
            match rustix::io::read(self.descriptor().get_ref(), &mut buffer) {
                Ok(0) => return,
                Ok(_) => tokio::task::yield_now().await,
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => ready.clear_ready(),
                Err(_) => return,
            }
        }
    }
}

fn watch(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    rustix::io::ioctl_fionbio(&fd, true)?;
    sys::watch(fd)
}

/// A job that prints line by line would cost a frame and an acknowledgement for each: what comes shortly after the first
/// goes with the next. The first itself, and the last before the end, never wait.
async fn gather(ended: &mut watch::Receiver<bool>) {
    // Leaves the end to be noticed by the caller.
    let _ = tokio::time::timeout(GATHER_TIME, ended.wait_for(|ended| *ended)).await;
}
