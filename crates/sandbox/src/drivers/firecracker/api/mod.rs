//! A client of Firecracker's API: HTTP/1 over a Unix socket in the jail, one connection for each request.
//!
//! Answers are bounded in size and time, since the jailed user may be hostile once the guest runs.

pub(super) mod requests;

use std::io;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST};
use hyper::{Method, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::time::timeout;

use super::owned_socket::OwnedSocket;
use requests::ApiRequest;

/// Deadline of a request. Booting reads kernel and initrd, on a busy machine from a cold disk.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Most bytes of an answer; a fault is a sentence or two.
const ANSWER_BYTES: usize = 16 * 1024;
/// Most characters of a fault that reach an error text.
const MAX_FAULT_CHARS: usize = 600;

/// The API of one machine.
#[derive(Debug, Clone)]
pub(super) struct FirecrackerApi {
    socket: OwnedSocket,
}

/// A request to Firecracker failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum FirecrackerApiError {
    /// The socket could not be reached.
    #[error("reach the API of Firecracker")]
    Connect(#[source] io::Error),
    /// Firecracker closed the connection, or did not speak HTTP.
    #[error("talk to Firecracker about {path}")]
    Exchange {
        /// Path of the request.
        path: String,
        /// The failure of the exchange.
        #[source]
        source: io::Error,
    },
    /// Firecracker rejected the request.
    #[error("Firecracker refused {path} ({status}): {fault}")]
    Refused {
        /// Path of the request.
        path: String,
        /// Status code of the answer.
        status: u16,
        /// Reason that Firecracker gave.
        fault: String,
    },
    /// Firecracker did not answer before the deadline.
    #[error("Firecracker did not answer to {0} in time")]
    Silent(String),
}

/// Body of a refusal.
#[derive(Debug, Deserialize)]
struct ApiFault {
    fault_message: String,
}

impl FirecrackerApi {
    /// Creates a client of the API on a socket.
    pub(super) fn new(socket: OwnedSocket) -> Self {
        Self { socket }
    }

    /// Reports whether Firecracker listens yet.
    pub(super) async fn listens(&self) -> io::Result<bool> {
        match self.socket.connect().await {
            Ok(_) => Ok(true),
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Ok(false),
                _ => Err(error),
            },
        }
    }

    pub(super) async fn put(&self, request: &ApiRequest) -> Result<(), FirecrackerApiError> {
        let path = request.path();
        let body = serde_json::to_vec(request)
            .map_err(|error| FirecrackerApiError::Exchange { path: path.clone(), source: error.into() })?;
        timeout(ANSWER_TIMEOUT, self.exchange(&path, body))
            .await
            .map_err(|_| FirecrackerApiError::Silent(path))?
    }

    async fn exchange(&self, path: &str, body: Vec<u8>) -> Result<(), FirecrackerApiError> {
        let failed = |error: hyper::Error| FirecrackerApiError::Exchange {
            path: path.to_owned(),
            source: io::Error::other(error),
        };
        let stream = self.socket.connect().await.map_err(FirecrackerApiError::Connect)?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
        let request = hyper::Request::builder()
            .method(Method::PUT)
            .uri(path)
            .header(HOST, "localhost")
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))
            .map_err(|error| FirecrackerApiError::Exchange {
                path: path.to_owned(),
                source: io::Error::other(error),
            })?;
        let answered = async {
            let response = sender.send_request(request).await.map_err(failed)?;
            let status = response.status();
            let body = Limited::new(response.into_body(), ANSWER_BYTES).collect().await;
            let body = body.map(|body| body.to_bytes()).unwrap_or_default();
            Ok((status, body))
        };
        tokio::pin!(answered, connection);
        // The connection belongs to this call: it is driven while the call waits and closed with it. If it
        // ends first, an answer that arrived before its end is still read. Dropping either branch closes the
        // connection and loses only this call's answer.
        let (status, body) = tokio::select! {
            answer = &mut answered => answer?,
            ended = &mut connection => {
                ended.map_err(failed)?;
                answered.await?
            }
        };
        judge(path, status, &body)
    }
}

fn judge(path: &str, status: StatusCode, body: &[u8]) -> Result<(), FirecrackerApiError> {
    if status == StatusCode::NO_CONTENT {
        return Ok(());
    }
    let fault = match serde_json::from_slice::<ApiFault>(body) {
        Ok(fault) => fault.fault_message,
        Err(_) => "no reason was given".to_owned(),
    };
    // The fault may quote the guest. A terminal that shows the log must not obey it.
    let tame = fault.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
    Err(FirecrackerApiError::Refused {
        path: path.to_owned(),
        status: status.as_u16(),
        fault: tame.take(MAX_FAULT_CHARS).collect(),
    })
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixListener;

    use super::requests::ActionType;
    use super::*;

    /// A server that reads something and says `answer` to it.
    async fn answering(answer: &'static str) -> Result<(), FirecrackerApiError> {
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("api.sock")).unwrap();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = vec![0; 4096];
            let count = stream.read(&mut asked).await.unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
            String::from_utf8_lossy(&asked[..count]).into_owned()
        });
        let owner = rustix::process::geteuid().as_raw();
        let api = FirecrackerApi::new(OwnedSocket::new(folder.path().join("api.sock"), owner));
        let outcome = api.put(&ActionType::SendCtrlAltDel.into()).await;
        let asked = server.await.unwrap();
        assert!(asked.starts_with("PUT /actions HTTP/1.1\r\n"), "{asked}");
        assert!(asked.ends_with(r#"{"action_type":"SendCtrlAltDel"}"#), "{asked}");
        outcome
    }

    #[tokio::test]
    async fn an_empty_answer_is_done() {
        answering("HTTP/1.1 204 \r\nServer: Firecracker API\r\nConnection: keep-alive\r\n\r\n")
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn a_fault_is_told_without_what_a_terminal_would_obey() {
        let answer = "HTTP/1.1 400 \r\nContent-Length: 30\r\n\r\n{\"fault_message\":\"no\\u001b[1\"}";
        let error = answering(answer).await.unwrap_err();
        assert_eq!(error.to_string(), "Firecracker refused /actions (400): no [1");
    }

    #[tokio::test]
    async fn an_end_without_an_answer_is_an_error() {
        assert!(matches!(answering("").await, Err(FirecrackerApiError::Exchange { .. })));
    }
}
