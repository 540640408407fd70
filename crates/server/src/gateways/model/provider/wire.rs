//! The two wire formats of providers behind one interface: requests out, answers in. No I/O.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use sandyard_protocol::{ModelCall, ModelEvent};
use serde_json::Value;

use super::failures::AttemptError;
use super::openai::AnswerLimit;
use super::secret::{ApiKey, BadKey};
use super::{anthropic, openai};

/// Version of Anthropic's API.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// The wire format of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WireFormat {
    /// The chat completions of OpenAI, which many other servers speak.
    OpenAi(AnswerLimit),
    /// The messages API of Anthropic.
    Anthropic,
}

impl WireFormat {
    /// Returns the path of calls below the provider's base URL.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::OpenAi(_) => "/chat/completions",
            Self::Anthropic => "/messages",
        }
    }

    /// Returns the headers of every call.
    pub(super) fn headers(self, key: Option<&ApiKey>) -> Result<HeaderMap, BadKey> {
        let mut headers = HeaderMap::new();
        let (name, prefix) = match self {
            Self::OpenAi(_) => (HeaderName::from_static("authorization"), "Bearer "),
            Self::Anthropic => (HeaderName::from_static("x-api-key"), ""),
        };
        if let Some(key) = key {
            headers.insert(name, key.header(prefix)?);
        }
        if self == Self::Anthropic {
            headers.insert("anthropic-version", HeaderValue::from_static(ANTHROPIC_VERSION));
        }
        headers.insert("accept", HeaderValue::from_static("text/event-stream"));
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        Ok(headers)
    }

    /// Returns the body of a call.
    pub(super) fn request(self, call: &ModelCall, model: &str) -> Value {
        match self {
            Self::OpenAi(limit) => openai::request(call, model, limit),
            Self::Anthropic => anthropic::request(call, model),
        }
    }

    /// Returns a parser for the answer to a call.
    pub(super) fn answer(self, call: &ModelCall) -> AnswerParser {
        match self {
            Self::OpenAi(_) => AnswerParser::OpenAi(openai::OpenAiAnswer::new(call.messages.len())),
            Self::Anthropic => AnswerParser::Anthropic(anthropic::AnthropicAnswer::default()),
        }
    }
}

/// Parses an answer while it arrives.
#[derive(Debug)]
pub(super) enum AnswerParser {
    OpenAi(openai::OpenAiAnswer),
    Anthropic(anthropic::AnthropicAnswer),
}

impl AnswerParser {
    /// Takes the data of one server-sent event. Returns the new parts of the answer.
    pub(super) fn take(&mut self, data: &str) -> Result<Vec<ModelEvent>, AttemptError> {
        match self {
            Self::OpenAi(answer) => answer.take(data),
            Self::Anthropic(answer) => answer.take(data),
        }
    }

    /// True if a part of the answer was taken, whether it was passed on or not.
    pub(super) fn has_begun(&self) -> bool {
        match self {
            Self::OpenAi(answer) => answer.has_begun(),
            Self::Anthropic(answer) => answer.has_begun(),
        }
    }

    /// True if the provider has marked the end of the answer.
    pub(super) fn is_done(&self) -> bool {
        match self {
            Self::OpenAi(answer) => answer.is_done(),
            Self::Anthropic(answer) => answer.is_done(),
        }
    }

    /// Ends the parsing. Returns the tool calls, then `Done`.
    pub(super) fn finish(self) -> Result<Vec<ModelEvent>, AttemptError> {
        match self {
            Self::OpenAi(answer) => answer.finish(),
            Self::Anthropic(answer) => answer.finish(),
        }
    }
}
