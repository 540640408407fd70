//! The sources of configuration, merged as text: the later one wins, and each value remembers where it came from.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::Surroundings;
use super::keys::{self, DRIVERS, KEYS, OTHER_VARIABLES};

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ConfigLayer {
    /// Nobody said anything.
    Default,
    /// The configuration file.
    File(PathBuf),
    /// This variable.
    Environment(&'static str),
    /// The command line.
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

/// What the command line gave: the file, and values by key.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flags {
    config: Option<PathBuf>,
    values: Vec<(&'static str, String)>,
}

impl Flags {
    /// No values, and this file if one was named.
    pub(crate) fn with_config(config: Option<PathBuf>) -> Self {
        Self { config, values: Vec::new() }
    }

    /// Adds a value if the flag was given.
    pub(crate) fn set(&mut self, key: &'static str, value: Option<impl ToString>) {
        self.values.extend(value.map(|value| (key, value.to_string())));
    }
}

/// The configuration can't be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// The file can't be read.
    #[error("read the configuration `{}`", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The file is not TOML.
    #[error("the configuration `{}` is not TOML", path.display())]
    Syntax {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: toml::de::Error,
    },
    /// A key nobody knows.
    #[error("unknown key `{key}` in `{}`", path.display())]
    UnknownKey {
        /// The key.
        key: String,
        /// Where.
        path: PathBuf,
        /// What was perhaps meant.
        nearest: Option<&'static str>,
    },
    /// A value that does not fit its key.
    #[error("`{value}` is no value for `{key}` (from: {layer})")]
    BadValue {
        /// The key.
        key: &'static str,
        /// The value.
        value: String,
        /// Where it came from.
        layer: ConfigLayer,
        /// What would fit.
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
    /// Merges the layers. A file that was not asked for may be absent; one that was named must be there.
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

    /// The value of a key and where it came from.
    pub(super) fn get(&self, key: &'static str) -> (&str, ConfigLayer) {
        self.values.get(key).map_or(("", ConfigLayer::Default), |(value, layer)| (value, layer.clone()))
    }

    /// Whether somebody set this key.
    pub(crate) fn is_set(&self, key: &'static str) -> bool {
        self.get(key).1 != ConfigLayer::Default
    }

    /// Every key, its value and its layer.
    pub(crate) fn rows(&self) -> Vec<[String; 3]> {
        let rows = self.values.iter();
        rows.map(|(key, (value, layer))| [(*key).to_owned(), value.clone(), layer.to_string()]).collect()
    }

    /// Variables that look like ours but are not.
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

    /// An unknown variable is only warned about: the environment belongs to others too.
    fn add_environment(&mut self, surroundings: &Surroundings) {
        for key in KEYS {
            if let Some(value) = surroundings.get(key.variable) {
                self.values.insert(key.name, (value.to_owned(), ConfigLayer::Environment(key.variable)));
            }
        }
        let known = || KEYS.iter().map(|key| key.variable).chain(OTHER_VARIABLES.iter().copied());
        for name in surroundings.variables.keys().filter(|name| name.starts_with("SANDYARD_")) {
            if !known().any(|variable| variable == name) {
                let meant = keys::nearest(name, known()).map(|near| format!("; did you mean {near}?"));
                self.warnings.push(format!("the variable {name} means nothing{}", meant.unwrap_or_default()));
            }
        }
    }
}

/// The keys of the file, those of drivers with their tables' names before them.
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

/// A scalar as text.
fn as_text(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        toml::Value::Boolean(truth) => Some(truth.to_string()),
        toml::Value::Array(_) | toml::Value::Datetime(_) | toml::Value::Table(_) => None,
    }
}
