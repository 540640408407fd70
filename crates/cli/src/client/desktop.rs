//! The desktop of a job: screenshots, and the WebSocket that carries VNC.

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use reqwest::Method;
use tokio_tungstenite::tungstenite::Message;

use super::terminal::Socket;
use super::{ApiClient, ClientError};

impl ApiClient {
    /// Returns a PNG screenshot of a job's desktop or of one window.
    pub(crate) async fn screenshot(&self, job: &str, window: Option<u32>) -> Result<Vec<u8>, ClientError> {
        let query = window.map(|window| format!("?window={window}")).unwrap_or_default();
        let request = self.request(Method::GET, &format!("/jobs/{job}/screenshot.png{query}"));
        let bytes = self.send(request).await?.bytes().await.map_err(ClientError::Lost)?;
        Ok(bytes.to_vec())
    }

    /// Connects a VNC client to a desktop.
    pub(crate) async fn desktop(
        &self,
        job: &str,
        control: bool,
    ) -> Result<(ToDesktop, FromDesktop), ClientError> {
        let query = if control { "?control=1" } else { "" };
        let socket = self.socket(&format!("/jobs/{job}/desktop/socket{query}")).await?;
        let (sink, stream) = socket.split();
        Ok((ToDesktop(sink), FromDesktop(stream)))
    }
}

/// Sending half of a desktop's WebSocket.
pub(crate) struct ToDesktop(SplitSink<Socket, Message>);

impl ToDesktop {
    /// Sends bytes of the VNC client.
    pub(crate) async fn send(&mut self, bytes: Vec<u8>) -> Result<(), ClientError> {
        self.0.send(Message::Binary(bytes.into())).await.map_err(lost)
    }
}

/// Receiving half of a desktop's WebSocket.
pub(crate) struct FromDesktop(SplitStream<Socket>);

impl FromDesktop {
    /// Returns the next bytes; `None` at the end. A close with a reason is an error.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<u8>>, ClientError> {
        while let Some(message) = self.0.next().await {
            match message.map_err(lost)? {
                Message::Binary(bytes) => return Ok(Some(bytes.to_vec())),
                Message::Close(frame) => return closed(frame.map(|frame| frame.reason.to_string())),
                Message::Text(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
            }
        }
        Ok(None)
    }
}

fn closed(reason: Option<String>) -> Result<Option<Vec<u8>>, ClientError> {
    match reason.filter(|reason| !reason.is_empty()) {
        Some(message) => {
            Err(ClientError::Refused { status: 409, code: "closed".to_owned(), message, hint: None })
        }
        None => Ok(None),
    }
}

fn lost(error: tokio_tungstenite::tungstenite::Error) -> ClientError {
    ClientError::TerminalLost(Box::new(error))
}
