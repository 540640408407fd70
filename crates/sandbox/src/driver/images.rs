//! Images as the contract names them: by content, so that a machine on any host can get the same one.

use std::fmt;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Names an image by everything that went into it: 64 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ImageDigest(String);

/// A text is no digest of an image.
#[derive(Debug, thiserror::Error)]
#[error("an image's digest has 64 hexadecimal digits")]
pub struct BadImageDigest;

impl TryFrom<String> for ImageDigest {
    type Error = BadImageDigest;

    fn try_from(text: String) -> Result<Self, BadImageDigest> {
        Self::parse(&text).ok_or(BadImageDigest)
    }
}

impl From<ImageDigest> for String {
    fn from(digest: ImageDigest) -> Self {
        digest.0
    }
}

impl ImageDigest {
    /// Parses the 64 digits that [`fmt::Display`] writes. Strict, because a digest becomes a path.
    pub fn parse(text: &str) -> Option<Self> {
        let clean = text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        (text.len() == 64 && clean).then(|| Self(text.to_owned()))
    }

    /// Converts a SHA-256 hash of all inputs.
    pub(crate) fn of_hash(hash: [u8; 32]) -> Self {
        Self(hex::encode(hash))
    }

    /// Returns the first twelve digits, for people.
    pub fn short(&self) -> &str {
        &self.0[..12]
    }

    /// Returns all 64 digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ImageDigest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The images on this host. A driver of local machines is opened with them and resolves the digests of its specifications;
/// a driver of remote machines passes digests on.
pub trait LocalImages: fmt::Debug + Send + Sync + 'static {
    /// Returns the root file system tree of a finished image, read-only and shared.
    fn tree(&self, image: &ImageDigest) -> Option<PathBuf>;

    /// Returns an image that `availability` can start a sandbox from, once there is one.
    fn probe_image(&self) -> Option<ImageDigest>;
}

/// Receives the progress of a preparation in a few words, such as `docker image 40 %`.
pub type ReportProgress<'a> = &'a (dyn Fn(String) + Send + Sync);

/// Resolves an image, or fails with its name.
pub(crate) fn tree_of(images: &dyn LocalImages, image: &ImageDigest) -> io::Result<PathBuf> {
    let missing = || io::Error::new(io::ErrorKind::NotFound, format!("image {} is not here", image.short()));
    images.tree(image).ok_or_else(missing)
}
