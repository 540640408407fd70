//! Where connections come from.

use std::io;
use std::net::IpAddr;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// A listening socket.
pub(super) trait Connections: Send + 'static {
    /// The stream of a connection.
    type Io: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// The next connection, and the address of its sender if it has one. Dropping the future loses no connection.
    fn take(&mut self) -> impl Future<Output = io::Result<(Self::Io, Option<IpAddr>)>> + Send;
}

impl Connections for TcpListener {
    type Io = TcpStream;

    async fn take(&mut self) -> io::Result<(TcpStream, Option<IpAddr>)> {
        let (stream, sender) = self.accept().await?;
        // Events and terminal output are small and must not wait for an acknowledgement.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection without TCP_NODELAY");
        }
        Ok((stream, Some(sender.ip())))
    }
}

impl Connections for UnixListener {
    type Io = UnixStream;

    async fn take(&mut self) -> io::Result<(UnixStream, Option<IpAddr>)> {
        Ok((self.accept().await?.0, None))
    }
}
