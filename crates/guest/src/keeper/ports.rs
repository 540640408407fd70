//! Ports of the machine: a TCP connection on loopback, carried over a stream as plain bytes.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use sandyard_protocol::{GuestError, GuestErrorCode, Reply, Request};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::Keeper;
use super::link::{HostStream, reply};
use super::services;
use crate::limits::CONNECT_DEADLINE;

/// Serves `ConnectPort`.
pub(super) async fn serve(keeper: Arc<Keeper>, request: Request, mut stream: HostStream) {
    let Request::ConnectPort { port } = request else { return };
    let (mut connection, authorization) = match open(&keeper, port).await {
        Ok(opened) => opened,
        Err(error) => return reply(&mut stream, &Reply::Failed(error)).await,
    };
    let answer = authorization.map_or(Reply::Done, |authorization| Reply::Service { authorization });
    if stream.send_message(&answer).await.is_err() {
        return;
    }
    let (mut host, early) = stream.into_inner();
    if connection.write_all(&early).await.is_ok() {
        // Either side's failure is the other's end of file.
        let _ = tokio::io::copy_bidirectional(&mut host, &mut connection).await;
    }
}

/// A connection, and what requests over it must carry if keeper runs what listens there.
async fn open(keeper: &Arc<Keeper>, port: u16) -> Result<(TcpStream, Option<String>), GuestError> {
    let authorization = services::ready(keeper, port).await?;
    Ok((connect(port).await?, authorization))
}

/// By IPv4 first: most development servers listen there, some on `localhost` as IPv6 only.
pub(super) async fn connect(port: u16) -> Result<TcpStream, GuestError> {
    let addresses =
        [SocketAddr::from((Ipv4Addr::LOCALHOST, port)), SocketAddr::from((Ipv6Addr::LOCALHOST, port))];
    let connected = tokio::time::timeout(CONNECT_DEADLINE, TcpStream::connect(addresses.as_slice())).await;
    match connected {
        Ok(Ok(connection)) => {
            // Both ends wait for single keystrokes and small frames; a failure costs only latency.
            let _ = connection.set_nodelay(true);
            Ok(connection)
        }
        _ => {
            let message = format!("nothing listens on port {port}");
            Err(GuestError::new(GuestErrorCode::ConnectionRefused, message))
        }
    }
}
