//! Keeper's links over a serial line: one at a time, each begun by the guest.
//!
//! A serial line has no connections, only a host that is there or not. So the next link begins when the
//! previous one is gone and the guest had time to notice. It is returned when the guest has sent something.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;

use super::sockets;
use crate::driver::SandboxId;

/// Time for the guest to notice the end of a link. It reads the line all the time, but may be emulated on a
/// busy host.
const NOTICE_TIMEOUT: Duration = Duration::from_millis(300);

/// The links of this server's machines.
#[derive(Debug, Default)]
pub(super) struct QemuLinks {
    turns: Mutex<HashMap<SandboxId, Arc<Semaphore>>>,
}

impl QemuLinks {
    /// Returns the next link of a machine. Cancelling it gives the turn back.
    pub(super) async fn next(&self, id: &SandboxId, folder: &Path) -> io::Result<QemuLink> {
        let turn = self.turn(id).acquire_owned().await.map_err(io::Error::other)?;
        // After the turn: only now is the previous link gone, and the guest must see the line closed before
        // it opens again.
        sleep(NOTICE_TIMEOUT).await;
        let stream = sockets::connect(folder, sockets::LINK).await?;
        stream.readable().await?;
        Ok(QemuLink { stream, _turn: turn })
    }

    pub(super) fn remove(&self, id: &SandboxId) {
        self.turns.lock().remove(id);
    }

    fn turn(&self, id: &SandboxId) -> Arc<Semaphore> {
        let mut turns = self.turns.lock();
        turns.entry(id.clone()).or_insert_with(|| Arc::new(Semaphore::new(1))).clone()
    }
}

/// A link over the serial line. While it lives, the machine has no other.
#[derive(Debug)]
pub(super) struct QemuLink {
    stream: UnixStream,
    _turn: OwnedSemaphorePermit,
}

impl AsyncRead for QemuLink {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for QemuLink {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
