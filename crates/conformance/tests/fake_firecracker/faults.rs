//! Faults and requests of the double: files beside its program, which the test writes and reads.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::schema::Minor;

/// Faults that a test can switch on. All are off by default.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Faults {
    /// Version that the double reports.
    pub(crate) version: Option<String>,
    /// True if the jailer fails.
    pub(crate) jailer_fails: bool,
    /// The jailer never comes to its end.
    pub(crate) jailer_stalls: bool,
    /// The API socket never appears.
    pub(crate) no_socket: bool,
    /// The process ends before it listens.
    pub(crate) dies_at_launch: bool,
    /// A request to this path is refused.
    pub(crate) refuses: Option<String>,
    /// A request to this path is never answered.
    pub(crate) stalls: Option<String>,
    /// A request to this path ends the process.
    pub(crate) dies: Option<String>,
    /// The guest never dials.
    pub(crate) mute_guest: bool,
    /// The guest does not react to the keys.
    pub(crate) ignores_keys: bool,
}

impl Faults {
    /// Reads the faults in the program's folder.
    pub(crate) fn read(folder: &Path) -> Self {
        match std::fs::read(folder.join("faults.json")) {
            Ok(text) => serde_json::from_slice(&text).unwrap(),
            Err(_) => Self::default(),
        }
    }

    /// The version that is told.
    pub(crate) fn version(&self) -> &str {
        self.version.as_deref().unwrap_or("1.16.1")
    }

    /// Returns the second number of the version.
    pub(crate) fn minor(&self) -> Minor {
        self.version().split('.').nth(1).unwrap().parse().unwrap()
    }
}

/// The folder of the program that runs, wherever it was copied from.
pub(crate) fn own_folder() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

/// Requests that the double got, in order, one line each.
#[derive(Debug)]
pub(crate) struct Transcript(File);

impl Transcript {
    /// Opened before the jail closes.
    pub(crate) fn open(folder: &Path) -> Self {
        Self(OpenOptions::new().create(true).append(true).open(folder.join("transcript.jsonl")).unwrap())
    }

    pub(crate) fn add(&mut self, what: &str, detail: Value) {
        writeln!(self.0, "{}", json!({ "what": what, "detail": detail })).unwrap();
    }
}
