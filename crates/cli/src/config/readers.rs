//! Reads single values of the layers.

use std::str::FromStr;

use super::layers::{ConfigError, Layers, shown};

pub(super) fn bad(layers: &Layers, key: &'static str, expected: &'static str) -> ConfigError {
    let (value, layer) = layers.get(key);
    ConfigError::BadValue { key, value: shown(key, value), layer, expected }
}

pub(super) fn parse<T: FromStr>(
    layers: &Layers,
    key: &'static str,
    expected: &'static str,
) -> Result<T, ConfigError> {
    layers.get(key).0.parse().map_err(|_| bad(layers, key, expected))
}

pub(super) fn optional<T: FromStr>(
    layers: &Layers,
    key: &'static str,
    expected: &'static str,
) -> Result<Option<T>, ConfigError> {
    if layers.get(key).0.is_empty() { Ok(None) } else { parse(layers, key, expected).map(Some) }
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
