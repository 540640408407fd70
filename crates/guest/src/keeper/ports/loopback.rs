//! Connects to programs of the machine over loopback.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use sandyard_protocol::{GuestError, GuestErrorCode};
use tokio::net::TcpStream;

use crate::limits::CONNECT_DEADLINE;

/// Connects to a port, by IPv4 first: most development servers listen there, some on `localhost` as IPv6 only.
pub(super) async fn connect(port: u16) -> Result<TcpStream, GuestError> {
    let addresses =
        [SocketAddr::from((Ipv4Addr::LOCALHOST, port)), SocketAddr::from((Ipv6Addr::LOCALHOST, port))];
    let connected = tokio::time::timeout(CONNECT_DEADLINE, TcpStream::connect(addresses.as_slice())).await;
    match connected {
        Ok(Ok(connection)) => {
            // Both ends wait for single keystrokes and small frames. A failure costs only latency.
            let _ = connection.set_nodelay(true);
            Ok(connection)
        }
        _ => {
            let message = format!("nothing listens on port {port}");
            Err(GuestError::new(GuestErrorCode::ConnectionRefused, message))
        }
    }
}

/// True if a program listens on a port.
pub(super) async fn is_listening(port: u16) -> bool {
    connect(port).await.is_ok()
}
