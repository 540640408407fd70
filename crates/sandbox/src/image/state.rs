//! State of an image on a host, as the program that builds images reports it.

use serde::{Deserialize, Serialize};

use crate::driver::ImageDigest;

/// State of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageState {
    /// Sandboxes can start from it.
    Ready {
        /// Digest of its content.
        image: ImageDigest,
    },
    /// It is being built.
    Preparing {
        /// Progress of the build.
        percent: u8,
        /// The present step, for people.
        step: String,
    },
    /// It is missing, and nobody builds it.
    Missing {
        /// The reason why nobody builds the image.
        detail: String,
        /// Advice for the operator.
        hint: String,
    },
}
