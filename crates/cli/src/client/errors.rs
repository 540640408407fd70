//! What can go wrong between us and the server.

use sandyard_api::ErrorBody;

use super::ServerAddress;
use crate::exit_codes::Exit;

/// A call to the server failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// The client itself could not be made.
    #[error("set up the HTTP client")]
    Setup(#[source] reqwest::Error),
    /// Its TLS could not be made.
    #[error("set up TLS")]
    Tls(#[from] rustls::Error),
    /// Nobody answers.
    #[error("no server answers at {endpoint}")]
    Unreachable {
        /// Where.
        endpoint: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server said no.
    #[error("{message}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// Stable code.
        code: String,
        /// One sentence.
        message: String,
        /// What to do about it.
        hint: Option<String>,
    },
    /// The connection broke in the middle.
    #[error("the connection to the server was lost")]
    Lost(#[source] reqwest::Error),
    /// The connection of a terminal broke.
    #[error("the connection to the server was lost")]
    TerminalLost(#[source] Box<tokio_tungstenite::tungstenite::Error>),
    /// The answer makes no sense.
    #[error("the server's answer can't be read")]
    Answer(#[source] serde_json::Error),
    /// A stream of events makes no sense.
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

    /// Whether trying again may help.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Lost(_) => true,
            Self::Refused { status, .. } => matches!(status, 429 | 502..=504),
            _ => false,
        }
    }

    /// Whether the job is unknown there.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Refused { status: 404, .. })
    }

    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Unreachable { .. } => Exit::Unreachable,
            Self::Refused { .. } => Exit::Refused,
            Self::Lost(_) | Self::TerminalLost(_) => Exit::Lost,
            Self::Setup(_) | Self::Tls(_) | Self::Answer(_) | Self::Stream(_) => Exit::Failed,
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
        assert_eq!(error.exit(), Exit::Refused);
    }

    #[test]
    fn an_answer_that_is_not_ours_is_told_plainly() {
        let error = ClientError::refused(502, b"<html>");
        assert_eq!(error.to_string(), "the server answered with status 502");
        assert!(error.is_transient());
    }
}
