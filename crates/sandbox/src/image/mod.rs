//! Images: the trees that sandboxes run, made once from the recipe in `images/agent/` and kept in a cache.
//!
//! `recipe` is the recipe itself, inside this program; `store` finds, lists and removes finished images; `build` and
//! `work` make one in a temporary directory with what `host` and `sources` take from the host's settings; `verify`
//! refuses a tree that a sandbox must not get. Only then is it renamed into the store, so a half-made image is never
//! seen. `archive` is a finished image in the form that container engines load. All calls block: run them on a thread that stays, because the death of that thread ends the build.

mod archive;
mod build;
mod host;
mod lock;
mod manifest;
mod progress;
mod recipe;
mod sources;
mod steps;
mod store;
mod verify;
pub mod vm;
mod work;

#[cfg(test)]
mod store_tests;

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use crate::driver::ImageDigest;
pub use archive::{Archive, ArchiveError, FLAVOUR_LABEL, IMAGE_LABEL, reference, write_file};
pub use build::{BuildError, Builder, Cancellation};
pub use host::HostSettings;
pub use manifest::ManifestError;
pub use progress::Progress;
pub use steps::StepError;
pub use store::{ImageStore, StoreError};
pub use verify::Fault;

/// Which set of programs an image holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flavour {
    /// Shell, Python, Node and git.
    Base,
    /// The base with compilers, kernels, JupyterLab, a desktop and a browser.
    Full,
}

impl Flavour {
    /// Every flavour, parents before their children.
    pub const ALL: [Self; 2] = [Self::Base, Self::Full];

    /// The name in commands, manifests and paths of the recipe.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Full => "full",
        }
    }

    /// The flavour of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|flavour| flavour.as_str() == name)
    }
}

impl fmt::Display for Flavour {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// What somebody wants of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageRequest {
    /// Its flavour.
    pub flavour: Flavour,
    /// Debian packages to add.
    pub with: Vec<String>,
    /// A new stamp (seconds since 1970) makes a new image with the updates of the day; none takes the newest there is.
    pub refresh: Option<u64>,
}

impl ImageRequest {
    /// The plain image of a flavour.
    pub fn plain(flavour: Flavour) -> Self {
        Self { flavour, with: Vec::new(), refresh: None }
    }
}

/// A finished image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Its name.
    pub digest: ImageDigest,
    /// What it holds.
    pub flavour: Flavour,
    /// Its root file system tree; to be used read-only.
    pub root: PathBuf,
    /// What is known about it.
    pub facts: ImageFacts,
}

/// What the builder wrote down about an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageFacts {
    /// What it holds.
    pub flavour: Flavour,
    /// Digest of recipe, architecture and added packages: equal for images that differ in their updates alone.
    pub recipe: ImageDigest,
    /// The image it was built on.
    pub parent: Option<ImageDigest>,
    /// Debian packages added on request.
    pub with: Vec<String>,
    /// Stamp of the refresh that made it, 0 for the first build.
    pub refresh: u64,
    /// When it was finished, in seconds since 1970.
    pub created_s: u64,
    /// How long that took.
    pub build_s: u64,
    /// Bytes of all its files.
    pub size_bytes: u64,
    /// How many files, directories and links it has.
    pub entries: u64,
    /// How many Debian packages are installed.
    pub packages: u64,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
