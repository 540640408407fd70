//! The sources of configuration, merged as text: the later one wins, and each value remembers where it came from.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use sandyard_api::nearest;
use sandyard_server::config::PostgresUrl;

use super::Surroundings;
use super::keys::{self, DRIVERS, KEYS, OTHER_VARIABLES, WITH_PASSWORDS};

/// The source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ConfigLayer {
    /// The value is not set.
    Default,
    /// The configuration file at this path.
    File(PathBuf),
    /// The named environment variable.
    Environment(&'static str),
    /// A flag of the command line.
    Flag,
}

impl fmt::Display for ConfigLayer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => formatter.write_str("default"),
            Self::File(path) => write!(formatter, "{}", path.display()),
            Self::Environment(variable) => formatter.write_str(variable),
            Self::Flag => formatter.write_str("command line"),
        }
    }
}

/// Settings of the command line: the configuration file, and values by key.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flags {
    config: Option<PathBuf>,
    values: Vec<(&'static str, String)>,
}

impl Flags {
    /// Returns flags without values, with the configuration file if one was named.
    pub(crate) fn with_config(config: Option<PathBuf>) -> Self {
        Self { config, values: Vec::new() }
    }

    /// Adds the value of a flag if it was given.
    pub(crate) fn set(&mut self, key: &'static str, value: Option<impl ToString>) {
        self.values.extend(value.map(|value| (key, value.to_string())));
    }
}

/// Why the configuration is rejected.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// The file can't be read.
    #[error("read the configuration `{}`", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The file is not TOML.
    #[error("the configuration `{}` is not TOML", path.display())]
    Syntax {
        path: PathBuf,
        #[source]
        source: toml::de::Error,
    },
    /// No such key exists.
    #[error("unknown key `{key}` in `{}`", path.display())]
    UnknownKey {
        key: String,
        path: PathBuf,
        /// The nearest known key.
        nearest: Option<&'static str>,
    },
    /// A value that does not fit its key.
    #[error("`{value}` is no value for `{key}` (from: {layer})")]
    BadValue {
        key: &'static str,
        value: String,
        layer: ConfigLayer,
        /// Describes the accepted values.
        expected: &'static str,
    },
}

impl ConfigError {
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::UnknownKey { nearest: Some(nearest), .. } => Some(format!("did you mean `{nearest}`?")),
            Self::UnknownKey { nearest: None, .. } => {
                let known: Vec<_> = KEYS.iter().map(|key| key.name).collect();
                Some(format!("the keys are {}", known.join(", ")))
            }
            Self::BadValue { expected, .. } => Some(format!("expected {expected}")),
            Self::Read { .. } | Self::Syntax { .. } => None,
        }
    }
}

/// All values as text, each with its layer.
#[derive(Debug, Clone)]
pub(crate) struct Layers {
    values: BTreeMap<&'static str, (String, ConfigLayer)>,
    warnings: Vec<String>,
}

impl Layers {
    /// Merges the layers. The default file may be absent; a file that was named must exist.
    pub(crate) fn load(surroundings: &Surroundings, flags: &Flags) -> Result<Self, ConfigError> {
        let defaults =
            KEYS.iter().map(|key| (key.name, (key.default.value(surroundings), ConfigLayer::Default)));
        let mut layers = Self { values: defaults.collect(), warnings: Vec::new() };
        let named = flags.config.clone().or_else(|| surroundings.get("SANDYARD_CONFIG").map(PathBuf::from));
        match named {
            Some(path) => layers.add_file(&path)?,
            None => layers.add_file_if_there(&surroundings.config_file())?,
        }
        layers.add_environment(surroundings);
        for (key, value) in &flags.values {
            layers.values.insert(key, (value.clone(), ConfigLayer::Flag));
        }
        Ok(layers)
    }

    /// Returns the value of a key and its source.
    pub(super) fn get(&self, key: &'static str) -> (&str, ConfigLayer) {
        self.values.get(key).map_or(("", ConfigLayer::Default), |(value, layer)| (value, layer.clone()))
    }

    /// True if the value of this key is not the default.
    pub(crate) fn is_set(&self, key: &'static str) -> bool {
        self.get(key).1 != ConfigLayer::Default
    }

    /// Returns every key with its value and its source, without passwords.
    pub(crate) fn rows(&self) -> Vec<[String; 3]> {
        let rows = self.values.iter();
        rows.map(|(key, (value, layer))| [(*key).to_owned(), shown(key, value), layer.to_string()]).collect()
    }

    /// Warnings about unknown variables that begin with `SANDYARD_`.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn add_file_if_there(&mut self, path: &Path) -> Result<(), ConfigError> {
        if path.exists() { self.add_file(path) } else { Ok(()) }
    }

    fn add_file(&mut self, path: &Path) -> Result<(), ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        let table: toml::Table =
            text.parse().map_err(|source| ConfigError::Syntax { path: path.to_owned(), source })?;
        for (name, value) in flattened(table) {
            let key = keys::find(&name).map_err(|nearest| ConfigError::UnknownKey {
                key: name.clone(),
                path: path.to_owned(),
                nearest,
            })?;
            let layer = ConfigLayer::File(path.to_owned());
            let text = as_text(&value).ok_or_else(|| ConfigError::BadValue {
                key: key.name,
                value: value.type_str().to_owned(),
                layer: layer.clone(),
                expected: "a string, a number or a truth value",
            })?;
            self.values.insert(key.name, (text, layer));
        }
        Ok(())
    }

    /// Only warns about an unknown variable: other programs share the environment.
    fn add_environment(&mut self, surroundings: &Surroundings) {
        for key in KEYS {
            if let Some(value) = surroundings.get(key.variable) {
                self.values.insert(key.name, (value.to_owned(), ConfigLayer::Environment(key.variable)));
            }
        }
        let known = || KEYS.iter().map(|key| key.variable).chain(OTHER_VARIABLES.iter().copied());
        for name in surroundings.variables.keys().filter(|name| name.starts_with("SANDYARD_")) {
            if !known().any(|variable| variable == name) {
                let meant = nearest(name, known()).map(|near| format!("; did you mean {near}?"));
                self.warnings.push(format!("the variable {name} means nothing{}", meant.unwrap_or_default()));
            }
        }
    }
}

/// The value of a key for people: logs, records, terminals.
pub(super) fn shown(key: &str, value: &str) -> String {
    if !WITH_PASSWORDS.contains(&key) || value.is_empty() {
        return value.to_owned();
    }
    PostgresUrl::parse(value).map_or_else(|_| "(not shown)".to_owned(), |url| url.to_string())
}

/// Returns the keys of the file. Keys of drivers are prefixed with the names of their tables.
fn flattened(table: toml::Table) -> Vec<(String, toml::Value)> {
    let mut keys = Vec::new();
    for (name, value) in table {
        match value {
            toml::Value::Table(inner) if name.split('.').next() == Some(DRIVERS) => {
                let below = inner.into_iter().map(|(key, value)| (format!("{name}.{key}"), value));
                keys.extend(flattened(below.collect()));
            }
            value => keys.push((name, value)),
        }
    }
    keys
}

/// Returns a scalar as text.
fn as_text(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        toml::Value::Boolean(truth) => Some(truth.to_string()),
        toml::Value::Array(_) | toml::Value::Datetime(_) | toml::Value::Table(_) => None,
    }
}
