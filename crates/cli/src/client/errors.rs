//! Errors of calls to the server.

use sandyard_api::ErrorBody;

use super::ServerAddress;
use crate::exit_codes::CommandExit;

/// Why a call to the server failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// The HTTP client could not be created.
    #[error("set up the HTTP client")]
    Setup(#[source] reqwest::Error),
    /// TLS could not be set up.
    #[error("set up TLS")]
    Tls(#[from] rustls::Error),
    /// No server answers at the address.
    #[error("no server answers at {endpoint}")]
    Unreachable {
        endpoint: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server rejected the request.
    #[error("{message}")]
    Refused {
        status: u16,
        /// Stable code of the error.
        code: String,
        message: String,
        hint: Option<String>,
    },
    /// The connection broke during the response.
    #[error("the connection to the server was lost")]
    Lost(#[source] reqwest::Error),
    /// The WebSocket of a terminal or desktop broke.
    #[error("the connection to the server was lost")]
    TerminalLost(#[source] Box<tokio_tungstenite::tungstenite::Error>),
    /// The response is not the expected JSON.
    #[error("the server's answer can't be read")]
    Answer(#[source] serde_json::Error),
    /// The event stream is malformed.
    #[error("the server's answer can't be read: {0}")]
    Stream(&'static str),
}

impl ClientError {
    pub(super) fn sending(endpoint: &ServerAddress, error: reqwest::Error) -> Self {
        if error.is_connect() || error.is_timeout() {
            let endpoint = endpoint.to_string();
            // The outer levels of the chain repeat the address that our own text has.
            return Self::Unreachable { endpoint, source: root_cause(error).into() };
        }
        Self::Lost(error)
    }

    pub(super) fn refused(status: u16, body: &[u8]) -> Self {
        match serde_json::from_slice::<ErrorBody>(body) {
            Ok(ErrorBody { error }) => {
                Self::Refused { status, code: error.code, message: error.message, hint: error.hint }
            }
            Err(_) => {
                let message = format!("the server answered with status {status}");
                Self::Refused { status, code: String::new(), message, hint: None }
            }
        }
    }

    /// True if a retry may succeed.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Lost(_) | Self::TerminalLost(_) => true,
            Self::Refused { status, .. } => matches!(status, 429 | 502..=504),
            _ => false,
        }
    }

    /// True if the server does not know the job.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { status: 404, .. })
    }

    pub(crate) fn exit(&self) -> CommandExit {
        match self {
            Self::Unreachable { .. } => CommandExit::Unreachable,
            Self::Refused { .. } => CommandExit::Refused,
            Self::Lost(_) | Self::TerminalLost(_) => CommandExit::Lost,
            Self::Setup(_) | Self::Tls(_) | Self::Answer(_) | Self::Stream(_) => CommandExit::Failed,
        }
    }

    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Unreachable { .. } => {
                Some("start one with `sandyard up`, or set SANDYARD_URL to where it is".to_owned())
            }
            Self::Refused { status: 401, hint: None, .. } => {
                Some("set SANDYARD_TOKEN to the key that `sandyard up` printed at its first start".to_owned())
            }
            Self::Refused { hint, .. } => hint.clone(),
            _ => None,
        }
    }
}

fn root_cause(error: reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = &error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_keeps_code_and_hint() {
        let body = br#"{"error":{"code":"empty_code","message":"`code` is empty","hint":"write some","request_id":"r"}}"#;
        let error = ClientError::refused(422, body);
        assert_eq!(error.to_string(), "`code` is empty");
        assert_eq!(error.hint().unwrap(), "write some");
        assert_eq!(error.exit(), CommandExit::Refused);
    }

    #[test]
    fn an_answer_that_is_not_ours_is_told_plainly() {
        let error = ClientError::refused(502, b"<html>");
        assert_eq!(error.to_string(), "the server answered with status 502");
        assert!(error.is_transient());
    }
}
