//! Ports on a machine's loopback, as plain byte streams.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use sandyard_protocol::{Reply, Request};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::calls::{GuestStream, Machine, MachineError, unexpected};
use super::doors::MachineStream;

/// Most bytes of an `Authorization` header. A scheme and a token of 32 bytes in hexadecimal are far shorter.
const AUTHORIZATION_BYTES: usize = 256;

impl Machine {
    /// Connects to a port on the machine's loopback.
    pub async fn connect_port(&self, port: u16) -> Result<PortStream, MachineError> {
        let (stream, authorization) = match self.call(&Request::ConnectPort { port }).await? {
            (stream, Reply::Done) => (stream, None),
            (stream, Reply::Service { authorization }) if authorization.len() <= AUTHORIZATION_BYTES => {
                (stream, Some(authorization))
            }
            (_, other) => return Err(unexpected(&other)),
        };
        let (stream, early) = stream.into_inner();
        Ok(PortStream { early, stream, authorization })
    }
}

/// A connection to a port. The first bytes of a server that speaks first may arrive in the same segment as
/// the guest's reply, so they are read before the stream.
#[derive(Debug)]
pub struct PortStream {
    early: Bytes,
    stream: MachineStream,
    authorization: Option<String>,
}

impl PortStream {
    /// Takes the bytes after a reply that turned its stream into a plain byte stream.
    pub(super) fn after(stream: GuestStream) -> Self {
        let (stream, early) = stream.into_inner();
        Self { early, stream, authorization: None }
    }

    /// Returns the value of the `Authorization` header for requests to a service that the machine started
    /// itself.
    pub fn authorization(&self) -> Option<&str> {
        self.authorization.as_deref()
    }
}

impl AsyncRead for PortStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if self.early.has_remaining() {
            let length = self.early.len().min(buffer.remaining());
            buffer.put_slice(&self.early.split_to(length));
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for PortStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
