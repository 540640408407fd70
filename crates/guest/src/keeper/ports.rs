//! Ports of the machine: a TCP connection on loopback, carried over a stream as plain bytes.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use sandyard_protocol::{GuestError, GuestErrorCode, Reply, Request};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::Keeper;
use super::limits::CONNECT_DEADLINE;
use super::link::{HostStream, reply};

/// Serves `ConnectPort`.
pub(super) async fn serve(_keeper: Arc<Keeper>, request: Request, mut stream: HostStream) {
    let Request::ConnectPort { port } = request else { return };
    let mut connection = match connect(port).await {
        Ok(connection) => connection,
        Err(error) => return reply(&mut stream, &Reply::Failed(error)).await,
    };
    if stream.send_message(&Reply::Done).await.is_err() {
        return;
    }
    let (mut host, early) = stream.into_inner();
    if connection.write_all(&early).await.is_ok() {
        // Either side's failure is the other's end of file.
        let _ = tokio::io::copy_bidirectional(&mut host, &mut connection).await;
    }
}

/// By IPv4 first: most development servers listen there, some on `localhost` as IPv6 only.
async fn connect(port: u16) -> Result<TcpStream, GuestError> {
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
