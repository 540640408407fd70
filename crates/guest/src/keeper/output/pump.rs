//! Moves the output of a process into its capture, until the process ends. Then reads and discards, so that background processes
//! are neither blocked by a full pipe nor killed by a closed one.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

use super::capture::Capture;
use super::segments::TakenBytes;
use crate::limits::{FEW_BYTES, GATHER_TIME, TERMINAL_QUIET};
use crate::sys;

/// The source of a process's output.
#[derive(Debug, Clone)]
pub(in crate::keeper) enum OutputSource {
    /// The read end of a pipe.
    Pipe(Arc<AsyncFd<OwnedFd>>),
    /// The master of a terminal.
    Terminal(Arc<AsyncFd<OwnedFd>>),
}

/// How a pump ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::keeper) enum Pumped {
    /// Every writer has closed the pipe.
    ToTheEnd,
    /// The process has ended and its output was taken; a background process still holds the pipe open.
    StillHeld,
}

impl OutputSource {
    pub(in crate::keeper) fn pipe(fd: OwnedFd) -> io::Result<Self> {
        Ok(Self::Pipe(Arc::new(watch(fd)?)))
    }

    pub(in crate::keeper) fn terminal(fd: OwnedFd) -> io::Result<Self> {
        Ok(Self::Terminal(Arc::new(watch(fd)?)))
    }

    /// The descriptor, ready to wait on.
    pub(in crate::keeper) fn descriptor(&self) -> &Arc<AsyncFd<OwnedFd>> {
        match self {
            Self::Pipe(fd) | Self::Terminal(fd) => fd,
        }
    }

    fn take(&self, capture: &Capture) -> io::Result<TakenBytes> {
        match self {
            Self::Pipe(fd) => capture.take_from_pipe(fd.get_ref()),
            Self::Terminal(fd) => capture.take_from_terminal(fd.get_ref()),
        }
    }

    /// Moves everything up to the end of the process, which `ended` announces. The capture is closed then.
    pub(in crate::keeper) async fn pump(
        &self,
        capture: &Capture,
        mut ended: watch::Receiver<bool>,
    ) -> Pumped {
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
        // Readiness moves output; `ended` stops the loop while the pipe is quiet but held open by others. Cancelling either loses
        // nothing: `readable` takes no bytes, the watch remembers its value, and bytes are taken in the body, which is never
        // cancelled. It does not matter which one wins: after the end, `drain` takes the rest.
        while !*ended.borrow_and_update() {
            tokio::select! {
                ready = self.descriptor().readable() => {
                    let mut ready = ready?;
                    match self.take(capture)? {
                        TakenBytes::Bytes(count) if count < FEW_BYTES => gather(ended).await,
                        TakenBytes::Bytes(_) => tokio::task::yield_now().await,
                        TakenBytes::Nothing => ready.clear_ready(),
                        TakenBytes::End => return Ok(Pumped::ToTheEnd),
                        // The source stays unread meanwhile, so the process blocks on its pipe instead of losing output.
                        TakenBytes::Full => capture.wait_for_room().await,
                    }
                }
                _ = ended.changed() => {}
            }
        }
        self.drain(capture).await
    }

    /// Takes the remaining output after the end.
    async fn drain(&self, capture: &Capture) -> io::Result<Pumped> {
        loop {
            match self.take(capture)? {
                TakenBytes::Bytes(_) => tokio::task::yield_now().await,
                TakenBytes::End => return Ok(Pumped::ToTheEnd),
                TakenBytes::Full => capture.wait_for_room().await,
                TakenBytes::Nothing => match self {
                    Self::Pipe(_) => return Ok(Pumped::StillHeld),
                    // A terminal delivers its last bytes a little later than a pipe does.
                    Self::Terminal(fd) => match tokio::time::timeout(TERMINAL_QUIET, fd.readable()).await {
                        Ok(ready) => ready?.clear_ready(),
                        Err(_) => return Ok(Pumped::StillHeld),
                    },
                },
            }
        }
    }

    /// Reads and discards until every writer has closed the pipe.
    pub(in crate::keeper) async fn discard(&self) {
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

/// Waits a moment before the next read. A job that prints line by line would cost a frame and an acknowledgement for each line;
/// this way lines that follow shortly after each other go together. The first line, and the last before the end, never wait.
async fn gather(ended: &mut watch::Receiver<bool>) {
    // Returns at once when the process ends; the caller sees the end by itself.
    let _ = tokio::time::timeout(GATHER_TIME, ended.wait_for(|ended| *ended)).await;
}
