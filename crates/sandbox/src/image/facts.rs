//! The nouns of images: which one is wanted, and what is known of a finished one.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::driver::ImageDigest;

/// Which set of programs an image holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageFlavour {
    /// Shell, Python, Node and git.
    Base,
    /// The base with compilers, kernels, JupyterLab, a desktop and a browser.
    Full,
}

impl ImageFlavour {
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

impl fmt::Display for ImageFlavour {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A request for an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageRequest {
    /// Flavour of the image.
    pub flavour: ImageFlavour,
    /// Debian packages to add.
    pub with: Vec<String>,
    /// A new stamp (seconds since 1970) makes a new image with the updates of the day; none takes the newest there is.
    pub refresh: Option<u64>,
}

impl ImageRequest {
    /// The plain image of a flavour.
    pub fn plain(flavour: ImageFlavour) -> Self {
        Self { flavour, with: Vec::new(), refresh: None }
    }
}

/// A finished image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Digest of everything that went into the image.
    pub digest: ImageDigest,
    /// Flavour of the image.
    pub flavour: ImageFlavour,
    /// Its root file system tree; to be used read-only.
    pub root: PathBuf,
    /// Facts about the image.
    pub facts: ImageFacts,
}

/// Facts about an image, as its builder recorded them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageFacts {
    /// Flavour of the image.
    pub flavour: ImageFlavour,
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
