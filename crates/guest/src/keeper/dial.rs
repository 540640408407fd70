//! How keeper reaches the host: a fresh byte stream each time it asks.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use async_trait::async_trait;
use sandyard_pipe::Duplex;
use tokio::net::UnixStream;

use crate::limits::SOCKET_WATCH;

/// A way to the host. Used by one task; cancelling a call leaves nothing behind.
#[async_trait]
pub trait Dial: Send + 'static {
    /// What carries a link.
    type Stream: Duplex;

    /// Reaches the host, or says why not.
    async fn dial(&mut self) -> io::Result<Self::Stream>;

    /// Returns when another dial would reach somebody else than the last one did: a server that took over while the one
    /// before, perhaps merely stopped, holds its end open. Never returns if that can't be known.
    async fn replaced(&mut self) {
        std::future::pending().await
    }
}

/// A Unix socket in a directory that the host may put another socket into at any time.
#[derive(Debug)]
pub struct UnixDial {
    path: PathBuf,
    reached: Option<(u64, u64)>,
}

impl UnixDial {
    /// Dials the socket at this path.
    pub fn new(path: PathBuf) -> Self {
        Self { path, reached: None }
    }

    /// Which socket is there now.
    fn present(&self) -> Option<(u64, u64)> {
        let found = std::fs::symlink_metadata(&self.path).ok()?;
        Some((found.dev(), found.ino()))
    }
}

#[async_trait]
impl Dial for UnixDial {
    type Stream = UnixStream;

    async fn dial(&mut self) -> io::Result<UnixStream> {
        // Looked at first: if the socket is replaced in between, the next look differs.
        let present = self.present();
        let stream = UnixStream::connect(&self.path).await?;
        self.reached = present;
        Ok(stream)
    }

    async fn replaced(&mut self) {
        loop {
            tokio::time::sleep(SOCKET_WATCH).await;
            // A socket that is merely gone belongs to a server that is restarting.
            if self.present().is_some_and(|present| Some(present) != self.reached) {
                return;
            }
        }
    }
}
