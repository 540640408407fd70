//! The two forms in which providers take calls and give answers, behind one face.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use sandyard_protocol::{ModelCall, ModelEvent};
use serde_json::{Value, json};

use super::failures::Trouble;
use super::openai::AnswerLimit;
use super::secret::{ApiKey, BadKey};
use super::{anthropic, openai};

/// The version of Anthropic's form that is spoken here.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// What a provider speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    /// Chat completions.
    OpenAi(AnswerLimit),
    /// Messages.
    Anthropic,
}

impl Wire {
    /// Where calls go, below the provider's base URL.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::OpenAi(_) => "/chat/completions",
            Self::Anthropic => "/messages",
        }
    }

    /// The headers of every call.
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

    /// The body of a call.
    pub(super) fn request(self, call: &ModelCall, model: &str) -> Value {
        match self {
            Self::OpenAi(limit) => openai::request(call, model, limit),
            Self::Anthropic => anthropic::request(call, model),
        }
    }

    /// The answer to a call, before anything of it came.
    pub(super) fn answer(self, call: &ModelCall) -> Answer {
        match self {
            Self::OpenAi(_) => Answer::OpenAi(openai::Answer::new(call.messages.len())),
            Self::Anthropic => Answer::Anthropic(anthropic::Answer::default()),
        }
    }
}

/// An answer on its way in.
#[derive(Debug)]
pub(super) enum Answer {
    OpenAi(openai::Answer),
    Anthropic(anthropic::Answer),
}

impl Answer {
    /// Takes the data of one event; returns what is new.
    pub(super) fn take(&mut self, data: &str) -> Result<Vec<ModelEvent>, Trouble> {
        match self {
            Self::OpenAi(answer) => answer.take(data),
            Self::Anthropic(answer) => answer.take(data),
        }
    }

    /// Whether the provider has said that nothing follows.
    pub(super) fn is_done(&self) -> bool {
        match self {
            Self::OpenAi(answer) => answer.is_done(),
            Self::Anthropic(answer) => answer.is_done(),
        }
    }

    /// The end of the stream: the calls, then `Done`.
    pub(super) fn finish(self) -> Result<Vec<ModelEvent>, Trouble> {
        match self {
            Self::OpenAi(answer) => answer.finish(),
            Self::Anthropic(answer) => answer.finish(),
        }
    }
}

/// An answer that can't be understood; the next attempt may be better.
pub(super) fn malformed(what: &str) -> Trouble {
    Trouble::passing(format!("the provider sent {what}"))
}

/// Arguments as an object, the only thing that every provider takes back; whatever else the model wrote is shown to it whole.
pub(super) fn arguments_object(arguments: &str) -> Value {
    match serde_json::from_str(arguments) {
        Ok(Value::Object(object)) => Value::Object(object),
        _ if arguments.trim().is_empty() => json!({}),
        _ => json!({ "malformed_arguments": arguments }),
    }
}
