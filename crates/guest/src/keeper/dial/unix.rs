//! Reaches a host on the same kernel through a Unix socket.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use async_trait::async_trait;
use tokio::net::UnixStream;

use super::contract::Dial;
use crate::limits::SOCKET_WATCH;

/// A Unix socket in a directory into which the host may put another socket at any time.
#[derive(Debug)]
pub struct UnixDial {
    path: PathBuf,
    /// Device and inode of the socket that the last dial reached.
    reached: Option<(u64, u64)>,
}

impl UnixDial {
    /// Dials the socket at this path.
    pub fn new(path: PathBuf) -> Self {
        Self { path, reached: None }
    }

    /// Device and inode of the socket that is there now.
    fn present(&self) -> Option<(u64, u64)> {
        let found = std::fs::symlink_metadata(&self.path).ok()?;
        Some((found.dev(), found.ino()))
    }
}

#[async_trait]
impl Dial for UnixDial {
    type Stream = UnixStream;

    async fn dial(&mut self) -> io::Result<UnixStream> {
        // Looked up before connecting: if the socket is replaced in between, `replaced` notices the difference.
        let present = self.present();
        let stream = UnixStream::connect(&self.path).await?;
        self.reached = present;
        Ok(stream)
    }

    async fn replaced(&mut self) {
        loop {
            tokio::time::sleep(SOCKET_WATCH).await;
            // A missing socket belongs to a server that is restarting: nobody has taken over yet.
            if self.present().is_some_and(|present| Some(present) != self.reached) {
                return;
            }
        }
    }
}
