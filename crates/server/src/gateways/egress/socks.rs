//! SOCKS version 5 (RFC 1928): CONNECT by name, without authentication.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

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
    Connect {
        /// Host and port as the client named them.
        named: String,
        target: Result<EgressTarget, BadHost>,
    },
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
        // Literal addresses are never allowed, but an attempt is recorded with its address.
        1 => Ipv4Addr::from(stream.read_u32().await?).to_string(),
        4 => format!("[{}]", Ipv6Addr::from(stream.read_u128().await?)),
        3 => {
            let mut name = vec![0; usize::from(stream.read_u8().await?)];
            stream.read_exact(&mut name).await?;
            String::from_utf8_lossy(&name).into_owned()
        }
        _ => return Ok(SocksRequest::Unsupported(SocksReply::BadAddress)),
    };
    let port = stream.read_u16().await?;
    if command != CONNECT {
        return Ok(SocksRequest::Unsupported(SocksReply::BadCommand));
    }
    Ok(SocksRequest::Connect { named: format!("{host}:{port}"), target: EgressTarget::new(&host, port) })
}

/// Sends the reply to a request. The bound address is zero: clients of CONNECT do not use it.
pub(super) async fn answer(stream: &mut (impl AsyncWrite + Unpin), reply: SocksReply) -> io::Result<()> {
    stream.write_all(&[VERSION, reply as u8, 0, 1, 0, 0, 0, 0, 0, 0]).await?;
    stream.flush().await
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    /// Whatever arrives ends in a request or an error.
    #[test]
    fn fuzz_socks() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        sandyard_fuzz::FuzzCorpus::of(env!("CARGO_MANIFEST_DIR"), "socks").run(|bytes| {
            runtime.block_on(async {
                let (mut own, mut client) = duplex(128 * 1024);
                client.write_all(bytes).await.unwrap();
                client.shutdown().await.unwrap();
                if let Ok(SocksRequest::Connect { named, target }) = read_request(&mut own).await {
                    assert!(
                        named.len() <= 4 * 255
                            && target.map_or(true, |target| !target.to_string().contains('\n'))
                    );
                }
            });
        });
    }
}
