//! The API of the server as function calls. Owns connection, keys and errors; knows no terminal and no file of this machine.
//!
//! `endpoint` is the address; `jobs` and `files` are the calls; `sse` reads event streams and `follow` keeps
//! one alive across lost connections; `processes` does that for a command; `terminal` is the WebSocket of an interactive shell, `desktop` that of a VNC client,
//! `tunnel` a plain connection to a port of a sandbox; `calls` serves the tools of MCP clients.

mod calls;
mod desktop;
mod endpoint;
mod errors;
mod files;
mod follow;
mod jobs;
mod patience;
mod processes;
mod sse;
mod terminal;
mod tunnel;

use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::de::DeserializeOwned;

pub(crate) use endpoint::ServerAddress;
pub(crate) use errors::ClientError;
pub(crate) use follow::{Follow, FollowUpdate};
pub(crate) use jobs::{JobQuery, KernelChange};
pub(crate) use processes::{CommandUpdate, FollowCommand};
pub(crate) use sse::SseReader;
pub(crate) use terminal::{TerminalEvent, WindowSize};

/// Longest time to connect. After that no server counts as running there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Result of looking for a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// No server answers at the address.
    Absent,
    /// The server rejects the key.
    Locked,
    /// The server answers and accepts the key.
    Open,
}

/// A handle to one server.
#[derive(Clone)]
pub(crate) struct ApiClient {
    http: reqwest::Client,
    endpoint: ServerAddress,
    token: Option<String>,
}

impl ApiClient {
    /// Returns a client. It connects on first use.
    pub(crate) fn new(endpoint: ServerAddress, token: Option<String>) -> Result<Self, ClientError> {
        let tls = sandyard_server::trust::of_this_host()?;
        let mut builder =
            reqwest::Client::builder().tls_backend_preconfigured(tls).connect_timeout(CONNECT_TIMEOUT);
        // A proxy of the environment must not see requests, and the key in them, to this machine.
        if endpoint.is_local() {
            builder = builder.no_proxy();
        }
        if let ServerAddress::Socket(path) = &endpoint {
            builder = builder.unix_socket(path.as_path());
        }
        let http = builder.build().map_err(ClientError::Setup)?;
        Ok(Self { http, endpoint, token })
    }

    /// Address of the server.
    pub(crate) fn endpoint(&self) -> &ServerAddress {
        &self.endpoint
    }

    /// Checks whether a server answers and accepts the key.
    pub(crate) async fn presence(&self) -> Presence {
        let request = self.request(Method::GET, "/jobs?limit=1").timeout(CONNECT_TIMEOUT);
        match request.send().await {
            Ok(response) if response.status() == StatusCode::UNAUTHORIZED => Presence::Locked,
            Ok(_) => Presence::Open,
            Err(_) => Presence::Absent,
        }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.endpoint.base()));
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    /// Sends a request. A response with an error status becomes an error.
    async fn send(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        let response = request.send().await.map_err(|error| ClientError::sending(&self.endpoint, error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let body = response.bytes().await.unwrap_or_default();
        Err(ClientError::refused(status.as_u16(), &body))
    }

    async fn json<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, ClientError> {
        let response = self.send(request).await?;
        let bytes = response.bytes().await.map_err(ClientError::Lost)?;
        serde_json::from_slice(&bytes).map_err(ClientError::Answer)
    }
}

/// Escapes each component of a sandbox path for a URL; slashes stay.
fn escape_path(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                escaped.push(char::from(byte))
            }
            other => escaped.push_str(&format!("%{other:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_escaped_but_keep_their_slashes() {
        assert_eq!(escape_path("a b/ü?#%.txt"), "a%20b/%C3%BC%3F%23%25.txt");
    }
}
