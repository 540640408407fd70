//! The WebSocket of an interactive shell: binary frames carry terminal bytes, text frames carry JSON control messages.

use std::sync::Arc;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use rustls::pki_types::ServerName;
use sandyard_pipe::Duplex;
use serde::{Deserialize, Serialize};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error as SocketError, Message};

use super::{ApiClient, ClientError, ServerAddress};

/// Rows and columns of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WindowSize {
    pub(crate) rows: u16,
    pub(crate) columns: u16,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum TerminalControl {
    Resize { columns: u16, rows: u16 },
}

/// A control message of the server. Members of a newer server are ignored.
#[derive(Deserialize)]
struct TerminalNotice {
    exit: Option<ExitNotice>,
}

#[derive(Deserialize)]
struct ExitNotice {
    code: i32,
}

/// An event of the remote shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TerminalEvent {
    Output(Vec<u8>),
    /// The shell ended with this code.
    Exit(i32),
}

pub(super) type Socket = WebSocketStream<Box<dyn Duplex>>;

/// An open interactive shell.
pub(crate) struct RemoteTerminal {
    sink: SplitSink<Socket, Message>,
    stream: SplitStream<Socket>,
}

impl ApiClient {
    /// Opens a shell in a live sandbox.
    pub(crate) async fn terminal(&self, job: &str, size: WindowSize) -> Result<RemoteTerminal, ClientError> {
        let WindowSize { rows, columns } = size;
        let socket = self.socket(&format!("/jobs/{job}/shell?rows={rows}&columns={columns}")).await?;
        let (sink, stream) = socket.split();
        Ok(RemoteTerminal { sink, stream })
    }

    /// Opens a WebSocket with the key of this client.
    pub(super) async fn socket(&self, path: &str) -> Result<Socket, ClientError> {
        // `http` becomes `ws`, and `https` becomes `wss`.
        let base = self.endpoint.base().replacen("http", "ws", 1);
        let mut request = format!("{base}{path}").into_client_request().map_err(refusal)?;
        if let Some(value) = self.token.as_ref().and_then(|token| format!("Bearer {token}").parse().ok()) {
            request.headers_mut().insert("authorization", value);
        }
        let stream = self.connect().await?;
        let (socket, _) = tokio_tungstenite::client_async(request, stream).await.map_err(refusal)?;
        Ok(socket)
    }

    async fn connect(&self) -> Result<Box<dyn Duplex>, ClientError> {
        let connected: std::io::Result<Box<dyn Duplex>> = match &self.endpoint {
            ServerAddress::Socket(path) => {
                UnixStream::connect(path).await.map(|stream| Box::new(stream) as _)
            }
            ServerAddress::Http(base) => connect_tcp(base).await,
        };
        connected.map_err(|source| ClientError::Unreachable {
            endpoint: self.endpoint.to_string(),
            source: Box::new(source),
        })
    }
}

/// Connects to the host of an address, with TLS if its scheme asks for it.
async fn connect_tcp(base: &str) -> std::io::Result<Box<dyn Duplex>> {
    let url = reqwest::Url::parse(base).map_err(std::io::Error::other)?;
    let host = url.host_str().unwrap_or_default();
    // Addresses of IP version 6 stand in brackets in a URL, and without them in a certificate.
    let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let port = url.port_or_known_default().unwrap_or(80);
    let stream = TcpStream::connect(format!("{host}:{port}")).await?;
    if url.scheme() != "https" {
        return Ok(Box::new(stream));
    }
    let trust = sandyard_server::trust::of_this_host().map_err(std::io::Error::other)?;
    let name = ServerName::try_from(bare).map_err(std::io::Error::other)?;
    let encrypted = TlsConnector::from(Arc::new(trust)).connect(name, stream).await?;
    Ok(Box::new(encrypted))
}

fn refusal(error: SocketError) -> ClientError {
    match error {
        SocketError::Http(response) => {
            let body = response.body().as_deref().unwrap_or_default();
            ClientError::refused(response.status().as_u16(), body)
        }
        other => ClientError::TerminalLost(Box::new(other)),
    }
}

/// Returns the error of a close frame that has a reason.
fn closed(reason: Option<String>) -> Result<Option<TerminalEvent>, ClientError> {
    match reason.filter(|reason| !reason.is_empty()) {
        Some(message) => {
            Err(ClientError::Refused { status: 502, code: "closed".to_owned(), message, hint: None })
        }
        None => Ok(None),
    }
}

impl RemoteTerminal {
    /// Splits the terminal into its sending and receiving halves.
    pub(crate) fn split(self) -> (TerminalInput, TerminalOutput) {
        (TerminalInput(self.sink), TerminalOutput(self.stream))
    }
}

/// The sending half: keys and window size.
pub(crate) struct TerminalInput(SplitSink<Socket, Message>);

impl TerminalInput {
    /// Sends typed bytes to the shell.
    pub(crate) async fn send(&mut self, bytes: Vec<u8>) -> Result<(), ClientError> {
        self.put(Message::Binary(bytes.into())).await
    }

    /// Reports a new window size.
    pub(crate) async fn resize(&mut self, size: WindowSize) -> Result<(), ClientError> {
        let control = TerminalControl::Resize { columns: size.columns, rows: size.rows };
        let text = serde_json::to_string(&control).map_err(ClientError::Answer)?;
        self.put(Message::Text(text.into())).await
    }

    async fn put(&mut self, message: Message) -> Result<(), ClientError> {
        self.0.send(message).await.map_err(|error| ClientError::TerminalLost(Box::new(error)))
    }
}

/// The receiving half: output and the exit code.
pub(crate) struct TerminalOutput(SplitStream<Socket>);

impl TerminalOutput {
    /// Returns the next event; `None` if the server closed without a reason.
    pub(crate) async fn next(&mut self) -> Result<Option<TerminalEvent>, ClientError> {
        while let Some(message) = self.0.next().await {
            match message.map_err(|error| ClientError::TerminalLost(Box::new(error)))? {
                Message::Binary(bytes) => return Ok(Some(TerminalEvent::Output(bytes.to_vec()))),
                Message::Text(text) => {
                    let notice: TerminalNotice = serde_json::from_str(&text).map_err(ClientError::Answer)?;
                    if let Some(ExitNotice { code }) = notice.exit {
                        return Ok(Some(TerminalEvent::Exit(code)));
                    }
                }
                Message::Close(frame) => return closed(frame.map(|frame| frame.reason.to_string())),
                Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
            }
        }
        Ok(None)
    }
}
