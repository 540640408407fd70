//! SOCKS version 5 (RFC 1928): CONNECT by name, without authentication.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::policy::{BadHost, EgressTarget};

/// The first byte of a SOCKS connection.
pub(super) const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;

/// Reply to a request; the value is the code of RFC 1928, section 6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SocksReply {
    Connected = 0,
    NotAllowed = 2,
    Unreachable = 4,
    BadCommand = 7,
    BadAddress = 8,
}

/// A request of a client.
pub(super) enum SocksRequest {
    Connect(Result<EgressTarget, BadHost>),
    Unsupported(SocksReply),
}

/// Reads greeting and request. Every length is one byte, so no further bound is needed.
pub(super) async fn read_request(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
) -> io::Result<SocksRequest> {
    if stream.read_u8().await? != VERSION {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut methods = vec![0; usize::from(stream.read_u8().await?)];
    stream.read_exact(&mut methods).await?;
    if !methods.contains(&NO_AUTHENTICATION) {
        stream.write_all(&[VERSION, NO_METHOD]).await?;
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    stream.write_all(&[VERSION, NO_AUTHENTICATION]).await?;
    let mut head = [0; 4];
    stream.read_exact(&mut head).await?;
    let [version, command, _, kind] = head;
    if version != VERSION {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let host = match kind {
        1 => literal(stream, 4).await?,
        4 => literal(stream, 16).await?,
        3 => {
            let mut name = vec![0; usize::from(stream.read_u8().await?)];
            stream.read_exact(&mut name).await?;
            Some(String::from_utf8_lossy(&name).into_owned())
        }
        _ => return Ok(SocksRequest::Unsupported(SocksReply::BadAddress)),
    };
    let port = stream.read_u16().await?;
    if command != CONNECT {
        return Ok(SocksRequest::Unsupported(SocksReply::BadCommand));
    }
    Ok(SocksRequest::Connect(host.map_or(Err(BadHost::Address), |host| EgressTarget::new(&host, port))))
}

/// Skips a literal address, which is never allowed.
async fn literal(stream: &mut (impl AsyncRead + Unpin), length: usize) -> io::Result<Option<String>> {
    stream.read_exact(&mut vec![0; length]).await?;
    Ok(None)
}

/// Sends the reply to a request. The bound address is zero: clients of CONNECT do not use it.
pub(super) async fn answer(stream: &mut (impl AsyncWrite + Unpin), reply: SocksReply) -> io::Result<()> {
    stream.write_all(&[VERSION, reply as u8, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
    stream.flush().await
}
