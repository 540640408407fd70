//! Names of models as operators write them, and the table of known providers.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::openai::AnswerLimit;
use super::wire::WireFormat;

/// The longest name; names in use have a few dozen bytes.
const MAX_NAME_BYTES: usize = 300;

/// A provider whose address and wire format the server knows.
#[derive(Debug, PartialEq, Eq)]
pub struct Provider {
    /// Name before the model's name.
    pub name: &'static str,
    /// Environment variable of its key.
    pub key_variable: &'static str,
    /// Base URL unless the operator gives another; `None` if the operator must.
    pub(super) base_url: Option<&'static str>,
    pub(super) wire: WireFormat,
    /// True if it rejects calls without a key.
    pub(super) needs_key: bool,
}

const OLD_LIMIT: WireFormat = WireFormat::OpenAi(AnswerLimit::MaxTokens);

/// All known providers. The operator names one in front of the model: `provider/model`.
pub const PROVIDERS: [Provider; 7] = [
    Provider {
        name: "openai",
        key_variable: "OPENAI_API_KEY",
        base_url: Some("https://api.openai.com/v1"),
        wire: WireFormat::OpenAi(AnswerLimit::MaxCompletionTokens),
        needs_key: true,
    },
    Provider {
        name: "anthropic",
        key_variable: "ANTHROPIC_API_KEY",
        base_url: Some("https://api.anthropic.com/v1"),
        wire: WireFormat::Anthropic,
        needs_key: true,
    },
    Provider {
        name: "openrouter",
        key_variable: "OPENROUTER_API_KEY",
        base_url: Some("https://openrouter.ai/api/v1"),
        wire: OLD_LIMIT,
        needs_key: true,
    },
    Provider {
        name: "ollama",
        key_variable: "OLLAMA_API_KEY",
        base_url: Some("http://127.0.0.1:11434/v1"),
        wire: OLD_LIMIT,
        needs_key: false,
    },
    Provider {
        name: "vllm",
        key_variable: "VLLM_API_KEY",
        base_url: Some("http://127.0.0.1:8000/v1"),
        wire: OLD_LIMIT,
        needs_key: false,
    },
    Provider {
        name: "llamacpp",
        key_variable: "LLAMA_API_KEY",
        base_url: Some("http://127.0.0.1:8080/v1"),
        wire: OLD_LIMIT,
        needs_key: false,
    },
    Provider {
        name: COMPATIBLE,
        key_variable: "OPENAI_COMPATIBLE_API_KEY",
        base_url: None,
        wire: OLD_LIMIT,
        needs_key: false,
    },
];

/// Any other server that is compatible with OpenAI. It has a key of its own, so that it never gets another provider's key.
const COMPATIBLE: &str = "openai-compatible";
const REPLAY: &str = "replay:";

/// A model as an operator names it: `openai/gpt-5`, `ollama:llama3`, `openai-compatible@http://host:port/v1/name`, `replay:file`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelSpec {
    text: String,
    pub(super) source: AnswerSource,
}

/// The source of a model's answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AnswerSource {
    /// A model of a provider, reached over the network.
    Remote { provider: &'static Provider, base_url: Option<String>, model: String },
    /// A file with a recording.
    Replay(PathBuf),
}

/// The text is not the name of a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadModelSpec {
    /// The provider is missing.
    #[error("`{0}` does not say whose model it is; write it as provider/model, e.g. openai/{0}")]
    NoProvider(String),
    /// The provider is unknown.
    #[error(
        "`{0}` is not a known provider; known are openai, anthropic, openrouter, ollama, vllm, llamacpp, openai-compatible@URL/model and replay:FILE"
    )]
    UnknownProvider(String),
    /// The model is missing.
    #[error("`{0}` names no model")]
    NoModel(String),
    /// The address is missing.
    #[error("`{0}` needs an address: openai-compatible@http://host:port/v1/model")]
    NoAddress(String),
    /// The name has spaces or is too long.
    #[error("a model's name has no spaces and at most {MAX_NAME_BYTES} bytes")]
    Malformed,
}

impl FromStr for ModelSpec {
    type Err = BadModelSpec;

    fn from_str(text: &str) -> Result<Self, BadModelSpec> {
        let text = text.trim();
        if let Some(path) = text.strip_prefix(REPLAY) {
            let named = !path.is_empty();
            let source = named.then(|| AnswerSource::Replay(PathBuf::from(path)));
            return Ok(Self {
                text: text.to_owned(),
                source: source.ok_or_else(|| BadModelSpec::NoModel(text.into()))?,
            });
        }
        let malformed = |character: char| character.is_whitespace() || character.is_control();
        if text.is_empty() || text.len() > MAX_NAME_BYTES || text.contains(malformed) {
            return Err(BadModelSpec::Malformed);
        }
        let source = match text.strip_prefix(COMPATIBLE).and_then(|rest| rest.strip_prefix('@')) {
            Some(address) => compatible(text, address)?,
            None => named(text)?,
        };
        Ok(Self { text: text.to_owned(), source })
    }
}

impl fmt::Display for ModelSpec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl ModelSpec {
    /// Returns the file with a recording, if that is the source of answers.
    pub fn replay_file(&self) -> Option<&Path> {
        match &self.source {
            AnswerSource::Replay(path) => Some(path),
            _ => None,
        }
    }

    /// Returns the name in the table of models; none for a recording.
    pub(super) fn table_name(&self) -> Option<String> {
        match &self.source {
            AnswerSource::Remote { provider, model, .. } => Some(format!("{}/{model}", provider.name)),
            AnswerSource::Replay(_) => None,
        }
    }
}

fn named(text: &str) -> Result<AnswerSource, BadModelSpec> {
    let (name, model) =
        text.split_once(['/', ':']).ok_or_else(|| BadModelSpec::NoProvider(text.to_owned()))?;
    if name == COMPATIBLE {
        return Err(BadModelSpec::NoAddress(text.to_owned()));
    }
    let provider = PROVIDERS.iter().find(|provider| provider.name == name);
    let provider = provider.ok_or_else(|| BadModelSpec::UnknownProvider(name.to_owned()))?;
    if model.is_empty() {
        return Err(BadModelSpec::NoModel(text.to_owned()));
    }
    Ok(AnswerSource::Remote { provider, base_url: None, model: model.to_owned() })
}

/// Splits address and model. Names of models may contain slashes, so the address ends with `/v1`, or before the last segment
/// if there is no `/v1`.
fn compatible(text: &str, address: &str) -> Result<AnswerSource, BadModelSpec> {
    let no_address = || BadModelSpec::NoAddress(text.to_owned());
    let host = address.strip_prefix("http://").or_else(|| address.strip_prefix("https://"));
    let host = host.ok_or_else(no_address)?;
    let scheme_bytes = address.len() - host.len();
    let border = match host.find("/v1/") {
        Some(position) => position + "/v1".len(),
        None => host.rfind('/').ok_or_else(|| BadModelSpec::NoModel(text.to_owned()))?,
    };
    let (base_url, model) = address.split_at(scheme_bytes + border);
    let model = &model[1..];
    if model.is_empty() {
        return Err(BadModelSpec::NoModel(text.to_owned()));
    }
    if base_url.len() == scheme_bytes {
        return Err(no_address());
    }
    let provider = PROVIDERS.iter().find(|provider| provider.name == COMPATIBLE).ok_or_else(no_address)?;
    Ok(AnswerSource::Remote { provider, base_url: Some(base_url.to_owned()), model: model.to_owned() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parts(text: &str) -> (&'static str, Option<String>, String) {
        match text.parse::<ModelSpec>().unwrap().source {
            AnswerSource::Remote { provider, base_url, model } => (provider.name, base_url, model),
            AnswerSource::Replay(path) => panic!("{}", path.display()),
        }
    }

    #[test]
    fn names_as_operators_write_them() {
        assert_eq!(parts("openai/gpt-5"), ("openai", None, "gpt-5".into()));
        assert_eq!(parts(" anthropic:claude-opus-5-5 "), ("anthropic", None, "claude-opus-5-5".into()));
        assert_eq!(parts("ollama/qwen2.5-coder:7b"), ("ollama", None, "qwen2.5-coder:7b".into()));
        assert_eq!(parts("ollama:llama3:8b"), ("ollama", None, "llama3:8b".into()));
        assert_eq!(parts("openrouter/meta/llama-3"), ("openrouter", None, "meta/llama-3".into()));
        let at = |url: &str, model: &str| ("openai-compatible", Some(url.to_owned()), model.to_owned());
        assert_eq!(
            parts("openai-compatible@http://127.0.0.1:8080/v1/name"),
            at("http://127.0.0.1:8080/v1", "name")
        );
        assert_eq!(parts("openai-compatible@https://h/v1/Qwen/Qwen2.5"), at("https://h/v1", "Qwen/Qwen2.5"));
        assert_eq!(parts("openai-compatible@http://h:1/api/name"), at("http://h:1/api", "name"));
        let replay: ModelSpec = "replay:demo todo.jsonl".parse().unwrap();
        assert_eq!(replay.source, AnswerSource::Replay("demo todo.jsonl".into()));
        assert_eq!(replay.to_string(), "replay:demo todo.jsonl");
        assert_eq!(replay.table_name(), None);
    }

    #[test]
    fn other_names_are_refused_with_what_to_write() {
        let refused = |text: &str| text.parse::<ModelSpec>().unwrap_err();
        assert_eq!(refused("gpt-5"), BadModelSpec::NoProvider("gpt-5".into()));
        assert_eq!(refused("opena/gpt-5"), BadModelSpec::UnknownProvider("opena".into()));
        assert_eq!(refused("openai/"), BadModelSpec::NoModel("openai/".into()));
        assert_eq!(refused("replay:"), BadModelSpec::NoModel("replay:".into()));
        for text in ["openai-compatible/x", "openai-compatible@ftp://h/v1/x", "openai-compatible@http:///x"] {
            assert_eq!(refused(text), BadModelSpec::NoAddress(text.into()));
        }
        for text in ["openai-compatible@http://h", "openai-compatible@http://h/v1/"] {
            assert_eq!(refused(text), BadModelSpec::NoModel(text.into()));
        }
        assert_eq!(refused("openai/a b"), BadModelSpec::Malformed);
        assert_eq!(refused(""), BadModelSpec::Malformed);
    }

    proptest! {
        #[test]
        fn no_name_makes_it_panic(text in "(openai-compatible@(https?://)?)?[a-z/:@v1é ]{0,30}") {
            let _ = text.parse::<ModelSpec>();
        }
    }
}
