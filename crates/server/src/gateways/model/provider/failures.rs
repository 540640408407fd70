//! Classifies errors of providers: the failure code for the agent, and whether another attempt may help. Pure.

use std::time::Duration;

use sandyard_protocol::{ModelFailure, ModelFailureCode};
use serde_json::Value;

/// Longest message of a provider that is passed on.
const MAX_MESSAGE_BYTES: usize = 1000;

/// Texts by which providers report that a conversation is too long. In order: OpenAI (code, two texts), Anthropic (three),
/// vLLM (three beside OpenAI's), llama.cpp (type, text), Ollama (two).
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
/// Texts by which providers report that an account has no money left: OpenAI (code, text), Anthropic, OpenRouter.
const OUT_OF_CREDIT: [&str; 4] = [
    "insufficient_quota",
    "exceeded your current quota",
    "credit balance is too low",
    "insufficient credits",
];
/// Texts of rate limits, which are counted in tokens too but do not concern the window.
const RATE: [&str; 3] = ["rate_limit", "rate limit", "per min"];

/// Why an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AttemptError {
    /// Another attempt does not help.
    Final(ModelFailure),
    /// Another attempt may help, after the delay that the provider asks for, if any.
    Passing { message: String, after: Option<Duration> },
    /// Somebody else answers at the provider's address.
    Stranger(String),
}

impl AttemptError {
    /// The provider's answer is not valid. The next attempt may succeed.
    pub(super) fn malformed(what: &str) -> Self {
        Self::passing(format!("the provider sent {what}"))
    }

    pub(super) fn passing(message: impl Into<String>) -> Self {
        Self::Passing { message: message.into(), after: None }
    }

    pub(super) fn failed(code: ModelFailureCode, message: impl Into<String>) -> Self {
        Self::Final(ModelFailure { code, message: message.into() })
    }
}

/// True if the beginning of a body is a web page, whatever its type is called.
pub(super) fn is_web_page(content_type: Option<&str>, body: &str) -> bool {
    let named =
        content_type.is_some_and(|name| name.trim_start().to_ascii_lowercase().starts_with("text/html"));
    let begins = body.trim_start().get(..9).unwrap_or_default().to_ascii_lowercase();
    named || begins.starts_with("<!doctype") || begins.starts_with("<html")
}

/// The error of a web page in the place of an answer.
pub(super) fn web_page(status: u16) -> AttemptError {
    AttemptError::Stranger(format!(
        "a web page (HTML, status {status}) came in the place of a model's answer; the model's address is probably wrong"
    ))
}

/// An error as a provider reports it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ProviderError {
    /// Type, code and status, in lower case, as far as given.
    kind: String,
    /// The provider's own message, for people.
    pub(super) message: String,
}

impl ProviderError {
    /// Reads the body of an HTTP response. Plain text becomes the message.
    pub(super) fn read(body: &str) -> Self {
        match serde_json::from_str::<Value>(body) {
            Ok(value) => Self::of(&value),
            Err(_) => Self { kind: String::new(), message: shorten(body) },
        }
    }

    /// Reads JSON: `{"error": {…}}` (OpenAI, Anthropic, llama.cpp, vLLM), `{"error": "…"}` (Ollama), `{"message": …}` (older
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

    /// True if the account has nothing left to pay with; a limit per minute is something else.
    fn is_out_of_credit(&self) -> bool {
        self.says_any(&OUT_OF_CREDIT) && !self.says_any(&RATE)
    }

    /// Classifies an HTTP response.
    pub(super) fn judge(self, status: u16, after: Option<Duration>) -> AttemptError {
        let message = &self.message;
        match status {
            // Never with the provider's text: it often repeats parts of the key.
            401 | 403 => AttemptError::failed(
                ModelFailureCode::Credentials,
                format!("the provider does not accept the operator's key (status {status})"),
            ),
            402 => no_credit(),
            400..=499 if self.is_out_of_credit() => no_credit(),
            413 => AttemptError::failed(
                ModelFailureCode::ContextTooLong,
                "the request is too large for the provider",
            ),
            300..=399 => AttemptError::Stranger(
                "the provider sends us elsewhere, and redirects are not followed; its base URL is wrong"
                    .to_owned(),
            ),
            400..=599 if self.is_too_long() => {
                AttemptError::failed(ModelFailureCode::ContextTooLong, message.clone())
            }
            408 | 429 | 500 | 502 | 503 | 504 | 529 => AttemptError::Passing {
                message: format!("the provider answers with status {status}: {message}"),
                after,
            },
            _ => AttemptError::failed(
                ModelFailureCode::Rejected,
                format!("the provider rejects the request (status {status}): {message}"),
            ),
        }
    }

    /// Classifies an error within an answer, where there is no HTTP status.
    pub(super) fn judge_in_answer(self) -> AttemptError {
        if self.is_too_long() {
            return AttemptError::failed(ModelFailureCode::ContextTooLong, self.message);
        }
        if ["authentication", "permission"].iter().any(|kind| self.kind.contains(kind)) {
            return AttemptError::failed(
                ModelFailureCode::Credentials,
                "the provider does not accept the operator's key",
            );
        }
        if self.kind.contains("invalid_request") {
            return AttemptError::failed(ModelFailureCode::Rejected, self.message);
        }
        AttemptError::passing(format!("the provider failed in the middle of its answer: {}", self.message))
    }
}

/// The key is right, and the account behind it can't pay.
fn no_credit() -> AttemptError {
    AttemptError::failed(
        ModelFailureCode::Credentials,
        "the operator's account has used up its quota or credit; its key is right",
    )
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns the text as one line of bounded length.
pub(super) fn shorten(text: &str) -> String {
    let mut line = String::new();
    for word in text.split_whitespace() {
        if line.len() + word.len() >= MAX_MESSAGE_BYTES {
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
