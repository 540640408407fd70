//! What keeper needs of a way to the host.

use std::io;

use async_trait::async_trait;
use sandyard_pipe::Duplex;

/// Reaches the host. Used by one task; cancelling a call leaves nothing behind.
#[async_trait]
pub trait Dial: Send + 'static {
    /// The byte stream that carries a link.
    type Stream: Duplex;

    /// Connects to the host.
    async fn dial(&mut self) -> io::Result<Self::Stream>;

    /// Returns when the next dial would reach another server than the last dial did: a server that took over while the earlier
    /// one, perhaps merely stopped, holds its end open. Never returns if a dialer can't know that.
    async fn replaced(&mut self) {
        std::future::pending().await
    }
}
