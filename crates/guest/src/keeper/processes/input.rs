//! Standard input of a process, shared by all streams attached to it. One stream writes at a time; the others wait.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;
use tokio::io::unix::AsyncFd;
use tokio::sync::Mutex;

use crate::sys;

/// The byte that a terminal takes as the end of input at the start of a line.
const END_OF_TRANSMISSION: &[u8] = &[4];

/// The standard input of a process.
#[derive(Debug)]
pub(super) struct StandardInput(Mutex<InputTarget>);

#[derive(Debug)]
enum InputTarget {
    None,
    Pipe(AsyncFd<OwnedFd>),
    Terminal(Arc<AsyncFd<OwnedFd>>),
}

impl StandardInput {
    /// No input, or none any more.
    pub(super) fn none() -> Self {
        Self(Mutex::new(InputTarget::None))
    }

    /// The write end of a pipe.
    pub(super) fn pipe(fd: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Self(Mutex::new(InputTarget::Pipe(sys::watch(fd)?))))
    }

    /// The master of a terminal.
    pub(super) fn terminal(fd: Arc<AsyncFd<OwnedFd>>) -> Self {
        Self(Mutex::new(InputTarget::Terminal(fd)))
    }

    /// True if input goes anywhere.
    pub(super) async fn is_open(&self) -> bool {
        !matches!(*self.0.lock().await, InputTarget::None)
    }

    /// Writes all bytes, waiting for the process to read. Bytes for a process that reads no more are dropped.
    pub(super) async fn write(&self, bytes: &[u8]) {
        let mut target = self.0.lock().await;
        let fd = match &*target {
            InputTarget::None => return,
            InputTarget::Pipe(fd) => fd,
            InputTarget::Terminal(fd) => fd.as_ref(),
        };
        // Mostly EPIPE: nobody reads any more. Later bytes must not wait on this descriptor.
        if write_all(fd, bytes).await.is_err() {
            *target = InputTarget::None;
        }
    }

    /// Closes a pipe, or types the end-of-file character into a terminal, whose descriptor must stay open for output.
    pub(super) async fn close(&self) {
        let mut target = self.0.lock().await;
        match &*target {
            InputTarget::Terminal(fd) => drop(write_all(fd, END_OF_TRANSMISSION).await),
            InputTarget::Pipe(_) | InputTarget::None => *target = InputTarget::None,
        }
    }
}

async fn write_all(fd: &AsyncFd<OwnedFd>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let mut ready = fd.writable().await?;
        match rustix::io::write(fd.get_ref(), bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::AGAIN) => ready.clear_ready(),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}
