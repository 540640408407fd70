//! Types of images: the request for one, and the facts of a finished one.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{ArchiveSnapshot, ImageArchitecture};
use crate::driver::ImageDigest;

/// Set of programs in an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageFlavour {
    /// Shell, Python, Node and git.
    Base,
    /// The base with compilers, kernels, JupyterLab, a desktop and a browser.
    Full,
    /// The full flavour with more languages, tools and libraries. Built on request only.
    Dev,
}

impl ImageFlavour {
    /// Every flavour, parents before their children.
    pub const ALL: [Self; 3] = [Self::Base, Self::Full, Self::Dev];

    /// Returns the name in commands, manifests and paths of the recipe.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Full => "full",
            Self::Dev => "dev",
        }
    }

    /// Returns the flavour of that name.
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
    /// Processor that it is for.
    pub architecture: ImageArchitecture,
    /// Debian packages to add.
    pub with: Vec<String>,
    /// Seconds since 1970. A new stamp makes a new image with the updates of the day; `None` takes the newest
    /// that exists.
    pub refresh: Option<u64>,
    /// State of Debian's archive to take packages from; `None` takes that of the day of the build.
    pub snapshot: Option<ArchiveSnapshot>,
}

impl ImageRequest {
    /// Requests the image of a flavour for this machine, without added packages.
    pub fn plain(flavour: ImageFlavour) -> Self {
        Self {
            flavour,
            architecture: ImageArchitecture::native(),
            with: Vec::new(),
            refresh: None,
            snapshot: None,
        }
    }
}

/// An image that is complete and in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Digest of everything that went into the image.
    pub digest: ImageDigest,
    /// Flavour of the image.
    pub flavour: ImageFlavour,
    /// Root file system tree of the image, to be used read-only.
    pub root: PathBuf,
    /// Facts about the image.
    pub facts: ImageFacts,
}

/// Facts about an image, as its builder recorded them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageFacts {
    /// Flavour of the image.
    pub flavour: ImageFlavour,
    /// Processor that it is for.
    #[serde(default = "ImageArchitecture::native")]
    pub architecture: ImageArchitecture,
    /// Digest of recipe, architecture, added packages and snapshot. Images that differ only in their updates have
    /// the same.
    pub recipe: ImageDigest,
    /// Image that it was built on.
    pub parent: Option<ImageDigest>,
    /// Debian packages added on request.
    pub with: Vec<String>,
    /// Stamp of the refresh that made the image, 0 for the first build.
    pub refresh: u64,
    /// State of Debian's archive that the packages come from; `None` is that of the day of the build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<ArchiveSnapshot>,
    /// Time at which the build ended, in seconds since 1970.
    pub created_s: u64,
    /// Duration of the build in seconds.
    pub build_s: u64,
    /// Size of all files in bytes.
    pub size_bytes: u64,
    /// Number of files, directories and links.
    pub entries: u64,
    /// Number of installed Debian packages.
    pub packages: u64,
}
