//! The configuration with its types.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use sandyard_sandbox::driver::IsolationLevel;
use sandyard_server::auth::origins::Domain;
use sandyard_server::config::{Floor, ModelSpec, PrivateException};

use super::drivers::DriverSettings;
use super::layers::{ConfigError, Layers};

/// Which images a server prepares by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ImageChoice {
    /// None: they were built beforehand.
    Nothing,
    /// The small one.
    Base,
    /// The small one first, then the full one.
    Full,
}

/// Everything an operator can set.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settings {
    /// Where to listen.
    pub(crate) listen: SocketAddr,
    /// The yard.
    pub(crate) data: PathBuf,
    /// Where images are kept.
    pub(crate) cache: PathBuf,
    /// Below it, beside `localhost`, each port of a sandbox has its own origin.
    pub(crate) domain: Option<Domain>,
    /// The one driver to use; `None` takes what works.
    pub(crate) driver: Option<String>,
    /// The weakest isolation that any job gets.
    pub(crate) isolation: Floor,
    /// Which images to prepare.
    pub(crate) images: ImageChoice,
    /// Debian packages that images have beside their own.
    pub(crate) packages: Vec<String>,
    /// Parts of sandboxes (control groups, blank disks) kept ready.
    pub(crate) pool: usize,
    /// The model for tasks that name none.
    pub(crate) model: Option<ModelSpec>,
    /// Others that tasks may name.
    pub(crate) models: Vec<ModelSpec>,
    /// A table of prices and abilities that goes before the shipped one.
    pub(crate) model_table: Option<PathBuf>,
    /// Where answers of models are recorded.
    pub(crate) record: Option<PathBuf>,
    /// Sandboxes at once; with 0 jobs are accepted but not started.
    pub(crate) concurrency: usize,
    /// Memory to give to jobs; `None` takes the machine's.
    pub(crate) memory_mib: Option<u64>,
    /// Jobs that may wait.
    pub(crate) queue: usize,
    /// How long a server that says nothing holds its jobs.
    pub(crate) lease_s: u64,
    /// How much of each output of a job is kept.
    pub(crate) output_cap_mib: u64,
    /// How long ended jobs are kept.
    pub(crate) retention_days: u64,
    /// How much of them is kept.
    pub(crate) retention_gib: u64,
    /// Private places that jobs may reach if they ask for them.
    pub(crate) egress_private: Vec<PrivateException>,
    /// Certificates that the host trusts.
    pub(crate) trust_file: PathBuf,
    /// What is logged: a level or directives.
    pub(crate) log: String,
    /// Whether the log is JSON.
    pub(crate) log_json: bool,
    /// What is set for each driver.
    pub(crate) drivers: DriverSettings,
}

impl Settings {
    /// Types every value.
    pub(crate) fn new(layers: &Layers) -> Result<Self, ConfigError> {
        let driver = text(layers, "driver");
        Ok(Self {
            listen: parse(layers, "listen", "an address and a port, like 127.0.0.1:8000")?,
            data: PathBuf::from(layers.get("data").0),
            cache: PathBuf::from(layers.get("cache").0),
            domain: domain(layers)?,
            driver: driver.filter(|name| name != "auto"),
            isolation: isolation(layers)?,
            images: one_of(layers, "images", &IMAGES, "none, base or full")?,
            packages: layers
                .get("packages")
                .0
                .split([',', ' '])
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect(),
            pool: parse(layers, "pool", "a number of sandboxes")?,
            model: optional(layers, "model", MODEL)?,
            models: models(layers)?,
            model_table: text(layers, "model_table").map(PathBuf::from),
            record: text(layers, "record").map(PathBuf::from),
            concurrency: parse(layers, "concurrency", "a number of sandboxes")?,
            memory_mib: optional(layers, "memory_mib", "a number of MiB")?,
            queue: parse(layers, "queue", "a number of jobs")?,
            lease_s: at_least_one(layers, "lease_s")?,
            output_cap_mib: at_least_one(layers, "output_cap_mib")?,
            retention_days: parse(layers, "retention_days", "a number of days")?,
            retention_gib: parse(layers, "retention_gib", "a number of GiB")?,
            egress_private: private_places(layers)?,
            trust_file: PathBuf::from(layers.get("trust_file").0),
            log: layers.get("log").0.to_owned(),
            log_json: one_of(layers, "log_format", &[("text", false), ("json", true)], "text or json")?,
            drivers: DriverSettings::new(layers)?,
        })
    }

    /// The Unix socket on which every server of this yard listens.
    pub(crate) fn socket(&self) -> PathBuf {
        self.data.join("sandyard.sock")
    }
}

const MODEL: &str = "a model like openai/gpt-5, anthropic/claude-opus-5, ollama/qwen3, openai-compatible@URL/model or replay:FILE";

/// Models, separated by commas.
fn models(layers: &Layers) -> Result<Vec<ModelSpec>, ConfigError> {
    let specs = layers.get("models").0.split(',').map(str::trim).filter(|spec| !spec.is_empty());
    specs.map(|spec| spec.parse().map_err(|_| bad(layers, "models", MODEL))).collect()
}

/// `HOST:PORT=ADDRESS`, separated by commas.
fn private_places(layers: &Layers) -> Result<Vec<PrivateException>, ConfigError> {
    let text = layers.get("egress_private").0;
    let place = |text: &str| {
        let (target, address) = text.trim().split_once('=')?;
        let (host, port) = target.rsplit_once(':')?;
        let host = host.to_ascii_lowercase();
        Some(PrivateException { host, port: port.parse().ok()?, address: address.parse().ok()? })
    };
    let places: Option<Vec<_>> = text.split(',').filter(|text| !text.trim().is_empty()).map(place).collect();
    places.ok_or_else(|| {
        bad(layers, "egress_private", "places like mirror.example:8080=10.0.0.7, separated by commas")
    })
}

fn isolation(layers: &Layers) -> Result<Floor, ConfigError> {
    let given = layers.get("isolation").0;
    if given == "any" {
        return Ok(Floor::Any);
    }
    let level = IsolationLevel::parse(given).filter(|level| *level > IsolationLevel::None);
    level.map(Floor::Level).ok_or_else(|| {
        bad(layers, "isolation", "any, container, gvisor or vm; to use one driver only, set `driver`")
    })
}

const IMAGES: [(&str, ImageChoice); 3] =
    [("none", ImageChoice::Nothing), ("base", ImageChoice::Base), ("full", ImageChoice::Full)];

fn bad(layers: &Layers, key: &'static str, expected: &'static str) -> ConfigError {
    let (value, layer) = layers.get(key);
    ConfigError::BadValue { key, value: value.to_owned(), layer, expected }
}

fn parse<T: FromStr>(layers: &Layers, key: &'static str, expected: &'static str) -> Result<T, ConfigError> {
    layers.get(key).0.parse().map_err(|_| bad(layers, key, expected))
}

fn optional<T: FromStr>(
    layers: &Layers,
    key: &'static str,
    expected: &'static str,
) -> Result<Option<T>, ConfigError> {
    if layers.get(key).0.is_empty() { Ok(None) } else { parse(layers, key, expected).map(Some) }
}

fn domain(layers: &Layers) -> Result<Option<Domain>, ConfigError> {
    let expected = "a name, or http:// or https:// and a name, like https://yard.example";
    let read = |text: String| Domain::parse(&text).ok_or_else(|| bad(layers, "domain", expected));
    text(layers, "domain").map(read).transpose()
}

pub(super) fn at_least_one(layers: &Layers, key: &'static str) -> Result<u64, ConfigError> {
    let expected = "a number of at least 1";
    let number = parse(layers, key, expected)?;
    if number == 0 { Err(bad(layers, key, expected)) } else { Ok(number) }
}

pub(super) fn one_of<T: Copy>(
    layers: &Layers,
    key: &'static str,
    choices: &[(&str, T)],
    expected: &'static str,
) -> Result<T, ConfigError> {
    let given = layers.get(key).0;
    let choice = choices.iter().find(|(name, _)| *name == given);
    choice.map(|(_, value)| *value).ok_or_else(|| bad(layers, key, expected))
}

pub(super) fn text(layers: &Layers, key: &'static str) -> Option<String> {
    Some(layers.get(key).0).filter(|value| !value.is_empty()).map(str::to_owned)
}
