//! Configuration: defaults ← TOML file ← environment ← flags, each value knowing its layer.
//!
//! `keys` lists every key once, with its variable, flag and default. `layers` merges the sources as text and refuses
//! unknown keys. `settings` and `drivers` turn text into typed values; a bad value is reported with the layer it came from.

mod drivers;
mod keys;
mod layers;
mod settings;

pub(crate) use drivers::{DriverSettings, QemuAccelerator};
pub(crate) use layers::{ConfigError, Flags, Layers};
pub(crate) use settings::{ImageChoice, Settings};

use std::collections::BTreeMap;
use std::path::PathBuf;

/// What main found around the process; nothing else reads the environment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Surroundings {
    /// The environment.
    pub(crate) variables: BTreeMap<String, String>,
    /// Whether this is root.
    pub(crate) root: bool,
}

impl Surroundings {
    /// Reads them; variables that are not UTF-8 can't be ours.
    pub(crate) fn read() -> Self {
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        Self { variables: variables.collect(), root: rustix::process::geteuid().is_root() }
    }

    /// A variable that is set to something.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Where the user lives.
    pub(crate) fn home(&self) -> Option<PathBuf> {
        self.get("HOME").map(PathBuf::from)
    }

    /// Whether colour is unwanted.
    pub(crate) fn colourless(&self) -> bool {
        self.get("NO_COLOR").is_some() || self.get("TERM") == Some("dumb")
    }

    /// The yard's folder: a system place for root, the user's own otherwise.
    fn data(&self) -> String {
        self.place("/var/lib/sandyard", "XDG_DATA_HOME", ".local/share")
    }

    /// Where a configuration file may be without being named.
    fn config_file(&self) -> PathBuf {
        PathBuf::from(self.place("/etc/sandyard", "XDG_CONFIG_HOME", ".config")).join("config.toml")
    }

    fn place(&self, system: &str, variable: &str, below_home: &str) -> String {
        if self.root {
            return system.to_owned();
        }
        // The XDG specification: a relative path in these variables is to be ignored.
        let named = self.get(variable).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = named.or_else(|| self.home().map(|home| home.join(below_home)));
        base.map_or_else(|| system.to_owned(), |base| base.join("sandyard").to_string_lossy().into_owned())
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
