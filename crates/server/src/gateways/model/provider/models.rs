//! The models of a yard: those that the operator named, ready for calls.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sandyard_protocol::{ModelCall, ModelEvent, ModelFacts};
use tokio::sync::mpsc;

use super::client::{AnswerEnd, AskFailure, Endpoint, PauseObserver};
use super::http::{self, HttpError, ProviderTimeouts};
use super::replay::{Replay, ReplayError};
use super::secret::{ApiKey, BadKey};
use super::specs::{AnswerSource, ModelSpec, Provider};
use super::table::{Abilities, ModelTable, Price, TableError};

/// The operator's settings for models. Keys and addresses are by the provider's name.
#[derive(Debug, Clone)]
pub struct ModelConfig {
    /// Model of jobs that name none.
    pub default: Option<ModelSpec>,
    /// Other models that a job may name.
    pub allowed: Vec<ModelSpec>,
    /// Keys of providers, by the provider's name.
    pub keys: BTreeMap<String, ApiKey>,
    /// Base URLs that replace the default ones, by provider.
    pub base_urls: BTreeMap<String, String>,
    /// Calls that one provider gets at once, of all jobs together.
    pub calls_at_once: usize,
    /// Timeouts and retries, the same for all providers.
    pub timeouts: ProviderTimeouts,
    /// The operator's own table of models, in TOML. Its rows win over those of the table in the server.
    pub table: Option<String>,
    /// File to which every answer is recorded.
    pub record: Option<PathBuf>,
    /// Built-in recordings, by the name after `replay:`.
    pub recordings: BTreeMap<String, String>,
}

impl Default for ModelConfig {
    /// Sixteen calls at once is below the lowest limit of the known providers.
    fn default() -> Self {
        Self {
            default: None,
            allowed: Vec::new(),
            keys: BTreeMap::new(),
            base_urls: BTreeMap::new(),
            calls_at_once: 16,
            timeouts: ProviderTimeouts::default(),
            table: None,
            record: None,
            recordings: BTreeMap::new(),
        }
    }
}

/// The operator's settings for models can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ModelsError {
    /// The provider needs a key.
    #[error("the model {model} needs a key; set {variable}")]
    NoKey {
        /// The model as the operator wrote it.
        model: String,
        /// The environment variable of the key.
        variable: &'static str,
    },
    /// The provider has no default address, and none is set.
    #[error("the model {0} has no address")]
    NoAddress(String),
    /// The key is not valid.
    #[error("the key of {0}")]
    Key(&'static str, #[source] BadKey),
    /// The table of models is not valid.
    #[error(transparent)]
    ModelTableFile(#[from] TableError),
    /// The recording can't be played.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The HTTP client can't be made.
    #[error(transparent)]
    Http(#[from] HttpError),
}

/// The requested model is not available.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoModel {
    #[error("no model is configured")]
    None,
    #[error("the model `{asked}` is not among those of this server: {known}")]
    Unknown { asked: String, known: String },
}

/// A model, ready for calls.
#[derive(Debug)]
pub(crate) struct Model {
    name: String,
    price: Option<Price>,
    abilities: Abilities,
    upstream: Upstream,
}

#[derive(Debug)]
enum Upstream {
    Remote { endpoint: Arc<Endpoint>, model: String },
    Replay(Replay),
}

impl Model {
    /// Returns the name as the operator wrote it. The name of a recording begins with `replay:`.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the price, if it is known.
    pub(in crate::gateways::model) fn price(&self) -> Option<Price> {
        self.price
    }

    /// Returns whether calls carry a provider's key; none if calls do not leave the host.
    pub(in crate::gateways::model) fn uses_key(&self) -> Option<bool> {
        match &self.upstream {
            Upstream::Remote { endpoint, .. } => Some(endpoint.has_key()),
            Upstream::Replay(_) => None,
        }
    }

    /// Returns the properties that the agent needs.
    pub(crate) fn facts(&self) -> ModelFacts {
        ModelFacts {
            name: self.name.clone(),
            replay: matches!(self.upstream, Upstream::Replay(_)),
            sees: self.abilities.sees,
            window_tokens: self.abilities.window,
            max_output_tokens: self.abilities.max_output,
        }
    }

    /// Makes a call. Text and tool calls go to `out` as they arrive, pauses between attempts to `paused`. Dropping the future
    /// cancels the call.
    pub(in crate::gateways::model) async fn ask(
        &self,
        call: &ModelCall,
        out: &mpsc::Sender<ModelEvent>,
        paused: PauseObserver<'_>,
    ) -> Result<AnswerEnd, AskFailure> {
        match &self.upstream {
            Upstream::Remote { endpoint, model } => endpoint.ask(model, call, out, paused).await,
            Upstream::Replay(replay) => Ok(replay.ask(call, out).await?),
        }
    }
}

/// The models of a yard.
#[derive(Debug)]
pub(crate) struct Models {
    default: Option<Arc<Model>>,
    all: Vec<Arc<Model>>,
}

impl Models {
    /// Makes all models, or reports the first that can't be made.
    pub(crate) fn new(config: &ModelConfig) -> Result<Self, ModelsError> {
        let table = ModelTable::with(config.table.as_deref().unwrap_or_default())?;
        let http = http::client(&config.timeouts)?;
        let mut maker = ModelFactory { config, table, http, endpoints: BTreeMap::new() };
        let mut all: Vec<Arc<Model>> = Vec::new();
        for spec in config.default.iter().chain(&config.allowed) {
            if !all.iter().any(|model| model.name == spec.to_string()) {
                all.push(Arc::new(maker.model(spec)?));
            }
        }
        let default = config.default.is_some().then(|| all.first().cloned()).flatten();
        Ok(Self { default, all })
    }

    /// Returns the model of that name, or the default model.
    pub(crate) fn find(&self, asked: Option<&str>) -> Result<Arc<Model>, NoModel> {
        let Some(asked) = asked else { return self.default.clone().ok_or(NoModel::None) };
        let found = self.all.iter().find(|model| model.name == asked).cloned();
        found.ok_or_else(|| {
            let known: Vec<&str> = self.all.iter().map(|model| model.name()).collect();
            if known.is_empty() {
                return NoModel::None;
            }
            NoModel::Unknown { asked: asked.to_owned(), known: known.join(", ") }
        })
    }
}

struct ModelFactory<'a> {
    config: &'a ModelConfig,
    table: ModelTable,
    http: reqwest::Client,
    /// By provider and address: models of one provider share its limit of calls.
    endpoints: BTreeMap<(&'static str, String), Arc<Endpoint>>,
}

impl ModelFactory<'_> {
    fn model(&mut self, spec: &ModelSpec) -> Result<Model, ModelsError> {
        let name = spec.to_string();
        let upstream = match &spec.source {
            AnswerSource::Replay(path) => Upstream::Replay(self.replay(path)?),
            AnswerSource::Remote { provider, base_url, model } => {
                let configured = self.config.base_urls.get(provider.name).map(String::as_str);
                let address = base_url.as_deref().or(configured).or(provider.base_url);
                let address = address.ok_or_else(|| ModelsError::NoAddress(name.clone()))?;
                let endpoint = self.endpoint(provider, address, &name)?;
                Upstream::Remote { endpoint, model: model.clone() }
            }
        };
        let known_as = match &upstream {
            Upstream::Replay(replay) => replay.model().to_owned(),
            Upstream::Remote { .. } => spec.table_name().unwrap_or_default(),
        };
        let price = self.table.price(&known_as).filter(|_| matches!(upstream, Upstream::Remote { .. }));
        if price.is_none() && matches!(upstream, Upstream::Remote { .. }) {
            tracing::info!(
                model = name,
                "the price of this model is unknown; a budget of money does not limit it"
            );
        }
        let abilities = self.table.abilities(&known_as);
        Ok(Model { name, price, abilities, upstream })
    }

    fn replay(&self, path: &Path) -> Result<Replay, ReplayError> {
        let shipped = path.to_str().and_then(|name| self.config.recordings.get(name));
        shipped.map_or_else(|| Replay::open(path), |text| Replay::read(text, path))
    }

    fn endpoint(
        &mut self,
        provider: &'static Provider,
        address: &str,
        model: &str,
    ) -> Result<Arc<Endpoint>, ModelsError> {
        let place = (provider.name, address.to_owned());
        if let Some(known) = self.endpoints.get(&place) {
            return Ok(Arc::clone(known));
        }
        let key = self.config.keys.get(provider.name).cloned();
        if key.is_none() && provider.needs_key {
            return Err(ModelsError::NoKey { model: model.to_owned(), variable: provider.key_variable });
        }
        let (http, timeouts) = (self.http.clone(), self.config.timeouts.clone());
        let endpoint = Endpoint::new(http, provider.wire, address, key, self.config.calls_at_once, timeouts)
            .map_err(|error| ModelsError::Key(provider.name, error))?;
        let endpoint = Arc::new(endpoint);
        self.endpoints.insert(place, Arc::clone(&endpoint));
        Ok(endpoint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(default: Option<&str>, allowed: &[&str]) -> ModelConfig {
        let spec = |text: &&str| text.parse().unwrap();
        ModelConfig {
            default: default.as_ref().map(spec),
            allowed: allowed.iter().map(spec).collect(),
            ..ModelConfig::default()
        }
    }

    fn models(config: &ModelConfig) -> Result<Models, ModelsError> {
        Models::new(config)
    }

    #[test]
    fn jobs_get_the_yards_model_or_one_that_is_allowed() {
        let yard = models(&config(Some("ollama/a"), &["ollama/b", "ollama/a"])).unwrap();
        assert_eq!(yard.find(None).unwrap().name(), "ollama/a");
        assert_eq!(yard.find(Some("ollama/b")).unwrap().name(), "ollama/b");
        let refused = yard.find(Some("ollama/c")).unwrap_err();
        assert_eq!(
            refused,
            NoModel::Unknown { asked: "ollama/c".into(), known: "ollama/a, ollama/b".into() }
        );
        let none = models(&config(None, &["ollama/b"])).unwrap();
        assert_eq!(none.find(None).unwrap_err(), NoModel::None);
        assert!(none.find(Some("ollama/b")).is_ok());
    }

    #[test]
    fn a_provider_without_its_key_is_named_at_the_start() {
        let error = models(&config(Some("anthropic/claude-opus-5"), &[])).unwrap_err();
        assert_eq!(error.to_string(), "the model anthropic/claude-opus-5 needs a key; set ANTHROPIC_API_KEY");
    }

    #[test]
    fn nothing_shows_a_key() {
        let mut config = config(Some("openai/gpt-5"), &[]);
        config.keys.insert("openai".into(), ApiKey::new("sk-very-secret-indeed").unwrap());
        let models = models(&config).unwrap();
        for shown in [format!("{config:?}"), format!("{models:?}")] {
            assert!(!shown.contains("very-secret"), "{shown}");
        }
    }
}
