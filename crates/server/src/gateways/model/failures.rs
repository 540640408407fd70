//! What a provider's refusal means: what the loop should do about it, and whether asking again may help. Pure.

use std::time::Duration;

use sandyard_protocol::{ModelFailure, ModelFailureCode};
use serde_json::Value;

/// The longest message that is passed on.
const MESSAGE_BYTES: usize = 1000;

/// How providers say that a conversation is too long. In order: OpenAI (code, words), Anthropic (three), vLLM (three; it
/// also speaks as OpenAI does), llama.cpp (type, words), Ollama (two).
const TOO_LONG: [&str; 13] = [
    "context_length_exceeded",
    "maximum context length",
    "exceeds the context window",
    "prompt is too long",
    "exceed context limit",
    "request_too_large",
    "longer than the maximum model length",
    "too long to fit into the model",
    "maximum model length is",
    "exceed_context_size",
    "exceeds the available context size",
    "exceeded max context length",
    "input length exceeds",
];
/// A limit per minute is named in tokens too, and is no limit of the window.
const RATE: [&str; 3] = ["rate_limit", "rate limit", "per min"];

/// An attempt that came to nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Asking again is of no use.
    Final(ModelFailure),
    /// It may pass; after so long, if the provider says.
    Passing { message: String, after: Option<Duration> },
}

impl Trouble {
    pub(super) fn passing(message: impl Into<String>) -> Self {
        Self::Passing { message: message.into(), after: None }
    }

    pub(super) fn failed(code: ModelFailureCode, message: impl Into<String>) -> Self {
        Self::Final(ModelFailure { code, message: message.into() })
    }
}

/// What a provider says of itself when something is wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Complaint {
    /// Type and code, in lower case, as far as given.
    kind: String,
    /// Its words.
    pub(super) message: String,
}

impl Complaint {
    /// Out of the body of an answer. Plain text and pages count as words.
    pub(super) fn read(body: &str) -> Self {
        match serde_json::from_str::<Value>(body) {
            Ok(value) => Self::of(&value),
            Err(_) => Self { kind: String::new(), message: shorten(body) },
        }
    }

    /// Out of JSON: `{"error": {…}}` (OpenAI, Anthropic, llama.cpp, vLLM), `{"error": "…"}` (Ollama), `{"message": …}` (older
    /// vLLM) or `{"detail": …}` (servers built on FastAPI).
    pub(super) fn of(value: &Value) -> Self {
        let inner = value.get("error").unwrap_or(value);
        let words = [inner.get("message"), inner.get("detail"), Some(inner)];
        let message = words.into_iter().flatten().find_map(|words| match words {
            Value::String(text) => Some(text.clone()),
            Value::Object(_) | Value::Null => None,
            other => Some(other.to_string()),
        });
        let kinds = ["type", "code", "status"].map(|name| inner.get(name).map(text_of).unwrap_or_default());
        Self { kind: kinds.join(" ").to_lowercase(), message: shorten(&message.unwrap_or_default()) }
    }

    fn says_any(&self, words: &[&str]) -> bool {
        let message = self.message.to_lowercase();
        words.iter().any(|words| self.kind.contains(words) || message.contains(words))
    }

    fn is_too_long(&self) -> bool {
        self.says_any(&TOO_LONG) && !self.says_any(&RATE)
    }

    /// With the status of an answer.
    pub(super) fn judge(self, status: u16, after: Option<Duration>) -> Trouble {
        let Self { kind, message } = &self;
        match status {
            // Never with the provider's words: they like to repeat parts of the key.
            401 | 403 => Trouble::failed(
                ModelFailureCode::Credentials,
                format!("the provider refuses the operator's key (status {status})"),
            ),
            402 => Trouble::failed(ModelFailureCode::Credentials, "the operator's account has no credit"),
            429 if kind.contains("insufficient_quota") => {
                Trouble::failed(ModelFailureCode::Credentials, "the operator's account has used up its quota")
            }
            413 => {
                Trouble::failed(ModelFailureCode::ContextTooLong, "the request is too large for the provider")
            }
            300..=399 => Trouble::failed(
                ModelFailureCode::Rejected,
                "the provider sends us elsewhere, and redirects are not followed; its base URL is wrong",
            ),
            400..=599 if self.is_too_long() => {
                Trouble::failed(ModelFailureCode::ContextTooLong, message.clone())
            }
            408 | 429 | 500 | 502 | 503 | 504 | 529 => Trouble::Passing {
                message: format!("the provider answers with status {status}: {message}"),
                after,
            },
            _ => Trouble::failed(
                ModelFailureCode::Rejected,
                format!("the provider rejects the request (status {status}): {message}"),
            ),
        }
    }

    /// In the middle of an answer, where there is no status left to give.
    pub(super) fn judge_in_answer(self) -> Trouble {
        if self.is_too_long() {
            return Trouble::failed(ModelFailureCode::ContextTooLong, self.message);
        }
        if ["authentication", "permission"].iter().any(|kind| self.kind.contains(kind)) {
            return Trouble::failed(ModelFailureCode::Credentials, "the provider refuses the operator's key");
        }
        if self.kind.contains("invalid_request") {
            return Trouble::failed(ModelFailureCode::Rejected, self.message);
        }
        Trouble::passing(format!("the provider failed in the middle of its answer: {}", self.message))
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// One line of bounded length.
pub(super) fn shorten(text: &str) -> String {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if line.len() + word.len() >= MESSAGE_BYTES {
            line.push('…');
            break;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line.retain(|character| !character.is_control());
    line
}

#[cfg(test)]
#[path = "failures_tests.rs"]
mod tests;
