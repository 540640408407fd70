//! The byte stream of a link, and how it gets into another process.

use std::any::Any;
use std::io;
use std::os::fd::OwnedFd;

use sandyard_pipe::Duplex;
use tokio::net::UnixStream;

/// Byte stream of a link. The server need not know its kind.
pub type BoxedDuplex = Box<dyn LinkStream>;

/// A duplex byte stream that can be handed to another process.
pub trait LinkStream: Duplex {
    /// Returns a socket for another process. A stream that is a plain socket is returned itself. Any other stays here, and a task
    /// copies its bytes, unread, until one side closes. Must be called within a tokio runtime.
    fn into_descriptor(self: Box<Self>) -> io::Result<OwnedFd>;
}

impl<T: Duplex> LinkStream for T {
    fn into_descriptor(self: Box<Self>) -> io::Result<OwnedFd> {
        let mut link = Some(*self);
        let slot: &mut dyn Any = &mut link;
        if let Some(socket) = slot.downcast_mut::<Option<UnixStream>>().and_then(Option::take) {
            return Ok(socket.into_std()?.into());
        }
        let (near, far) = UnixStream::pair()?;
        if let Some(link) = link {
            tokio::spawn(copy(link, near));
        }
        Ok(far.into_std()?.into())
    }
}

/// Copies both ways until one side closes. A link has no half that goes on alone.
async fn copy(link: impl Duplex, near: UnixStream) {
    let (mut from_link, mut to_link) = tokio::io::split(link);
    let (mut from_near, mut to_near) = near.into_split();
    // Dropping the other direction loses only bytes that nobody is left to read.
    let ended = tokio::select! {
        ended = tokio::io::copy(&mut from_link, &mut to_near) => ended,
        ended = tokio::io::copy(&mut from_near, &mut to_link) => ended,
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a link ended");
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn received(fd: OwnedFd) -> UnixStream {
        UnixStream::from_std(fd.into()).unwrap()
    }

    #[tokio::test]
    async fn a_socket_and_any_other_stream_arrive_and_end() {
        let (socket, socket_peer) = UnixStream::pair().unwrap();
        let (other, other_peer) = tokio::io::duplex(16);
        let links: [(BoxedDuplex, BoxedDuplex); 2] =
            [(Box::new(socket), Box::new(socket_peer)), (Box::new(other), Box::new(other_peer))];
        for (link, mut peer) in links {
            let mut far = received(link.into_descriptor().unwrap());
            far.write_all(b"ask").await.unwrap();
            let mut bytes = [0; 3];
            peer.read_exact(&mut bytes).await.unwrap();
            peer.write_all(b"say").await.unwrap();
            far.read_exact(&mut bytes).await.unwrap();
            assert_eq!(&bytes, b"say");
            drop(far);
            assert_eq!(peer.read(&mut bytes).await.unwrap(), 0);
        }
    }
}
