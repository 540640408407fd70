//! Names of models as an operator writes them, and what is known of their providers.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use super::openai::AnswerLimit;
use super::wire::Wire;

/// The longest name; those in use have a few dozen bytes.
const NAME_BYTES: usize = 300;

/// A provider that is known by name.
#[derive(Debug, PartialEq, Eq)]
pub struct Provider {
    /// As it stands before the model's name.
    pub name: &'static str,
    /// The variable in which people keep its key.
    pub key_variable: &'static str,
    /// Where it is, if nobody says otherwise.
    pub(super) base_url: Option<&'static str>,
    pub(super) wire: Wire,
    /// Whether it is of no use without a key.
    pub(super) needs_key: bool,
}

const OLD_LIMIT: Wire = Wire::OpenAi(AnswerLimit::MaxTokens);

/// Every provider that is known by name.
pub const PROVIDERS: [Provider; 7] = [
    Provider {
        name: "openai",
        key_variable: "OPENAI_API_KEY",
        base_url: Some("https://api.openai.com/v1"),
        wire: Wire::OpenAi(AnswerLimit::MaxCompletionTokens),
        needs_key: true,
    },
    Provider {
        name: "anthropic",
        key_variable: "ANTHROPIC_API_KEY",
        base_url: Some("https://api.anthropic.com/v1"),
        wire: Wire::Anthropic,
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

/// Any other server that speaks as OpenAI does; its key is its own, so that no other's is ever sent to it.
const COMPATIBLE: &str = "openai-compatible";
const REPLAY: &str = "replay:";

/// A model as an operator names it: `openai/gpt-5`, `ollama:llama3`, `openai-compatible@http://host:port/v1/name`, `replay:file`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelSpec {
    text: String,
    pub(super) source: Source,
}

/// Where answers come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Source {
    /// From a provider.
    Remote { provider: &'static Provider, base_url: Option<String>, model: String },
    /// From a file of recorded turns.
    Replay(PathBuf),
}

/// A name that names no model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadModelSpec {
    /// Without a provider.
    #[error("`{0}` does not say whose model it is; write it as provider/model, e.g. openai/{0}")]
    NoProvider(String),
    /// By a provider that is not known.
    #[error(
        "`{0}` is no provider we know; there are openai, anthropic, openrouter, ollama, vllm, llamacpp, openai-compatible@URL/model and replay:FILE"
    )]
    UnknownProvider(String),
    /// Without a model.
    #[error("`{0}` names no model")]
    NoModel(String),
    /// Without an address.
    #[error("`{0}` needs an address: openai-compatible@http://host:port/v1/model")]
    NoAddress(String),
    /// Not a name at all.
    #[error("a model's name has no spaces and at most {NAME_BYTES} bytes")]
    Malformed,
}

impl FromStr for ModelSpec {
    type Err = BadModelSpec;

    fn from_str(text: &str) -> Result<Self, BadModelSpec> {
        let text = text.trim();
        if let Some(path) = text.strip_prefix(REPLAY) {
            let named = !path.is_empty();
            let source = named.then(|| Source::Replay(PathBuf::from(path)));
            return Ok(Self {
                text: text.to_owned(),
                source: source.ok_or_else(|| BadModelSpec::NoModel(text.into()))?,
            });
        }
        let malformed = |character: char| character.is_whitespace() || character.is_control();
        if text.is_empty() || text.len() > NAME_BYTES || text.contains(malformed) {
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
    /// As the table of models names it.
    pub(super) fn table_name(&self) -> Option<String> {
        match &self.source {
            Source::Remote { provider, model, .. } => Some(format!("{}/{model}", provider.name)),
            Source::Replay(_) => None,
        }
    }
}

fn named(text: &str) -> Result<Source, BadModelSpec> {
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
    Ok(Source::Remote { provider, base_url: None, model: model.to_owned() })
}

/// Names of models may have slashes, so the address ends with `/v1` where it has one, and before the last part where not.
fn compatible(text: &str, address: &str) -> Result<Source, BadModelSpec> {
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
    Ok(Source::Remote { provider, base_url: Some(base_url.to_owned()), model: model.to_owned() })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parts(text: &str) -> (&'static str, Option<String>, String) {
        match text.parse::<ModelSpec>().unwrap().source {
            Source::Remote { provider, base_url, model } => (provider.name, base_url, model),
            Source::Replay(path) => panic!("{}", path.display()),
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
        assert_eq!(replay.source, Source::Replay("demo todo.jsonl".into()));
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
