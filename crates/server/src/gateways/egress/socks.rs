//! SOCKS version 5 (RFC 1928), as far as it is needed: no authentication, CONNECT by name.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::policy::{BadHost, Target};

/// The first byte of a SOCKS connection.
pub(super) const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const NO_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;

/// How a request ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Connected = 0,
    NotAllowed = 2,
    Unreachable = 4,
    BadCommand = 7,
    BadAddress = 8,
}

/// What the client wants, or why it can't be told.
pub(super) enum Wish {
    Connect(Result<Target, BadHost>),
    Unsupported(Verdict),
}

/// Reads greeting and request. Every length is a byte, so nothing needs a bound.
pub(super) async fn wish(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> io::Result<Wish> {
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
        _ => return Ok(Wish::Unsupported(Verdict::BadAddress)),
    };
    let port = stream.read_u16().await?;
    if command != CONNECT {
        return Ok(Wish::Unsupported(Verdict::BadCommand));
    }
    Ok(Wish::Connect(host.map_or(Err(BadHost::Address), |host| Target::new(&host, port))))
}

/// Reads past an address; a literal one is never allowed.
async fn literal(stream: &mut (impl AsyncRead + Unpin), length: usize) -> io::Result<Option<String>> {
    stream.read_exact(&mut vec![0; length]).await?;
    Ok(None)
}

/// Answers a request.
pub(super) async fn answer(stream: &mut (impl AsyncWrite + Unpin), verdict: Verdict) -> io::Result<()> {
    stream.write_all(&[VERSION, verdict as u8, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
    stream.flush().await
}
