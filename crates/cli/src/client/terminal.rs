//! The WebSocket of an interactive shell: binary frames carry terminal bytes, text frames carry JSON control messages.
//!
//! The shell belongs to its sandbox. After a lost connection the client asks for the bytes after those that it has shown.

use std::sync::Arc;

use futures_util::{SinkExt, StreamExt};
use rustls::pki_types::ServerName;
use sandyard_pipe::Duplex;
use serde::{Deserialize, Serialize};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error as SocketError, Message};

use super::patience::RetryPatience;
use super::{ApiClient, ClientError, ServerAddress, escape_path};

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
    process: Option<String>,
    offset: Option<u64>,
    lost: Option<u64>,
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
    /// The connection is lost; the next call tries to connect again.
    Lost,
    /// The connection works again.
    Back,
    /// The shell ended with this code.
    Exit(i32),
}

pub(super) type Socket = WebSocketStream<Box<dyn Duplex>>;

/// An interactive shell, connected or about to be again.
pub(crate) struct RemoteTerminal {
    client: ApiClient,
    job: String,
    /// Id of the shell; a server that does not name it can't give it back.
    process: Option<String>,
    /// Bytes that were shown.
    offset: u64,
    size: WindowSize,
    socket: Option<Socket>,
    patience: RetryPatience,
}

impl ApiClient {
    /// Opens a shell in a live sandbox, or a command on a terminal.
    pub(crate) async fn terminal(
        &self,
        job: &str,
        size: WindowSize,
        command: Option<&str>,
    ) -> Result<RemoteTerminal, ClientError> {
        let WindowSize { rows, columns } = size;
        let command = command.map(|line| format!("&command={}", escape_path(line))).unwrap_or_default();
        let path = format!("/jobs/{job}/shell?rows={rows}&columns={columns}{command}");
        let socket = self.socket(&path).await?;
        Ok(RemoteTerminal {
            client: self.clone(),
            job: job.to_owned(),
            process: None,
            offset: 0,
            size,
            socket: Some(socket),
            patience: RetryPatience::default(),
        })
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

impl RemoteTerminal {
    /// Sends typed bytes to the shell. Bytes that are typed while the connection is lost are dropped.
    pub(crate) async fn send(&mut self, bytes: Vec<u8>) {
        self.put(Message::Binary(bytes.into())).await;
    }

    /// Reports a new window size.
    pub(crate) async fn resize(&mut self, size: WindowSize) -> Result<(), ClientError> {
        self.size = size;
        let control = TerminalControl::Resize { columns: size.columns, rows: size.rows };
        let text = serde_json::to_string(&control).map_err(ClientError::Answer)?;
        self.put(Message::Text(text.into())).await;
        Ok(())
    }

    /// A failure is noticed by the next read.
    async fn put(&mut self, message: Message) {
        if let Some(socket) = &mut self.socket {
            drop(socket.send(message).await);
        }
    }

    /// Returns the next event; `None` if the server closed without a reason. May be cancelled at any time without losing output.
    pub(crate) async fn next(&mut self) -> Result<Option<TerminalEvent>, ClientError> {
        loop {
            let Some(socket) = &mut self.socket else {
                if let Some(news) = self.connect().await? {
                    return Ok(Some(news));
                }
                continue;
            };
            match socket.next().await {
                Some(Ok(Message::Binary(bytes))) => {
                    self.offset += bytes.len() as u64;
                    self.patience.progressed();
                    return Ok(Some(TerminalEvent::Output(bytes.to_vec())));
                }
                Some(Ok(Message::Text(text))) => {
                    let notice: TerminalNotice = serde_json::from_str(&text).map_err(ClientError::Answer)?;
                    if let Some(code) = self.take(notice) {
                        return Ok(Some(TerminalEvent::Exit(code)));
                    }
                }
                Some(Ok(Message::Close(frame))) if self.process.is_none() || !is_passing(frame.as_ref()) => {
                    return closed(frame.map(|frame| frame.reason.to_string()));
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Err(error)) if self.process.is_none() => {
                    return Err(ClientError::TerminalLost(Box::new(error)));
                }
                None if self.process.is_none() => return Ok(None),
                Some(Ok(Message::Close(_)) | Err(_)) | None => self.socket = None,
            }
        }
    }

    /// Tries to connect once; `Some` is an event for the caller.
    async fn connect(&mut self) -> Result<Option<TerminalEvent>, ClientError> {
        let (WindowSize { rows, columns }, offset) = (self.size, self.offset);
        let process = self.process.as_deref().unwrap_or_default();
        let path =
            format!("/jobs/{}/processes/{process}?offset={offset}&rows={rows}&columns={columns}", self.job);
        match self.client.socket(&path).await {
            Ok(socket) => {
                self.socket = Some(socket);
                Ok(self.patience.connected().then_some(TerminalEvent::Back))
            }
            Err(error)
                if (error.is_transient() || self.client.is_dialling(&self.job, &error).await)
                    && self.patience.lasts() =>
            {
                Ok(self.patience.pause().await.then_some(TerminalEvent::Lost))
            }
            Err(error) => Err(error),
        }
    }

    /// Notes what the server says. Returns the exit code if the shell ended.
    fn take(&mut self, notice: TerminalNotice) -> Option<i32> {
        if notice.process.is_some() {
            self.process = notice.process;
            self.offset = notice.offset.unwrap_or(self.offset);
        }
        self.offset += notice.lost.unwrap_or(0);
        notice.exit.map(|exit| exit.code)
    }
}

/// True for the end of a connection that says nothing about the shell: the server stops, or it lost the sandbox.
fn is_passing(frame: Option<&CloseFrame>) -> bool {
    frame.is_none_or(|frame| matches!(frame.code, CloseCode::Away | CloseCode::Error))
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
