//! Common parts of the WebSockets of a terminal and of a desktop: pings and closing.

use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket};
use bytes::Bytes;
use tokio::time::Instant;

/// Delay between two pings.
pub(in crate::http) const PING_INTERVAL: Duration = Duration::from_secs(20);
/// A client is gone after three pings without any sign of life.
pub(in crate::http) const SILENCE_TIMEOUT: Duration = Duration::from_secs(60);
/// Inputs of a client on their way to the sandbox. Few: the socket is not read while they wait.
pub(in crate::http) const INPUT_QUEUE: usize = 4;
/// Longest reason in a close frame: RFC 6455 allows 123 bytes.
const MAX_REASON_BYTES: usize = 120;

/// Why a socket ends.
#[derive(Debug)]
pub(in crate::http) enum SocketEnd {
    /// The client left, or broke the rules of WebSockets.
    Left,
    /// The client gets a close frame with this code and reason.
    Close(u16, String),
}

/// Sends the close frame, if there is one.
pub(in crate::http) async fn close(socket: &mut WebSocket, end: SocketEnd) {
    let SocketEnd::Close(code, reason) = end else { return };
    let mut length = reason.len().min(MAX_REASON_BYTES);
    while !reason.is_char_boundary(length) {
        length -= 1;
    }
    let frame = CloseFrame { code, reason: reason[..length].to_owned().into() };
    // A client that is gone already needs no close frame.
    let _ = tokio::time::timeout(PING_INTERVAL, socket.send(Message::Close(Some(frame)))).await;
}

/// Sends a ping, unless the client has been silent for too long.
pub(in crate::http) async fn ping(socket: &mut WebSocket, heard: Instant) -> Result<(), SocketEnd> {
    if heard.elapsed() > SILENCE_TIMEOUT {
        return Err(SocketEnd::Left);
    }
    send(socket, Message::Ping(Bytes::new())).await
}

/// Sends a message. A client that takes nothing for too long is gone, and may hold control of a desktop.
pub(in crate::http) async fn send(socket: &mut WebSocket, message: Message) -> Result<(), SocketEnd> {
    match tokio::time::timeout(SILENCE_TIMEOUT, socket.send(message)).await {
        Ok(Ok(())) => Ok(()),
        _ => Err(SocketEnd::Left),
    }
}
