//! Configuration: defaults ← TOML file ← environment ← flags. Each value remembers its source.
//!
//! `keys` lists every key once, with its variable, flag and default. `layers` merges the sources as text and rejects
//! unknown keys. `settings` and `drivers` parse the text; a bad value is reported with its source.

mod drivers;
mod keys;
mod layers;
mod readers;
mod settings;

pub(crate) use drivers::{DriverSettings, QemuAccelerator};
pub(crate) use layers::{ConfigError, Flags, Layers};
pub(crate) use settings::{ImageChoice, Settings};

use std::collections::BTreeMap;
use std::path::PathBuf;

/// Where output has colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColourWish {
    OnTerminals,
    Always,
    Never,
}

/// Environment and user of the process. Nothing else reads the environment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Surroundings {
    /// Environment variables, by name.
    pub(crate) variables: BTreeMap<String, String>,
    /// True if the effective user is root.
    pub(crate) root: bool,
}

impl Surroundings {
    /// Reads the environment of this process. Variables that are not UTF-8 are skipped: none of Sandyard's is.
    pub(crate) fn read() -> Self {
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        Self { variables: variables.collect(), root: rustix::process::geteuid().is_root() }
    }

    /// Returns a variable that is set and not empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns the home directory of the user.
    pub(crate) fn home(&self) -> Option<PathBuf> {
        self.get("HOME").map(PathBuf::from)
    }

    /// Returns the colours that the environment asks for. Who forces them has reasons, so that wins.
    pub(crate) fn colours(&self) -> ColourWish {
        match (self.get("FORCE_COLOR"), self.get("NO_COLOR")) {
            (Some(force), _) if force != "0" => ColourWish::Always,
            (None, None) if self.get("TERM") != Some("dumb") => ColourWish::OnTerminals,
            _ => ColourWish::Never,
        }
    }

    /// Returns the default data directory: the system's for root, the user's own otherwise.
    fn data(&self) -> String {
        self.place("/var/lib/sandyard", "XDG_DATA_HOME", ".local/share")
    }

    /// Returns the path of the configuration file that is read without being named.
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
