//! The source of images. The command supplies it, because it decides when and where images are built.

use async_trait::async_trait;
use sandyard_sandbox::driver::ImageDigest;
pub use sandyard_sandbox::image::ImageFlavour;
use serde::Serialize;

/// State of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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

/// The images of this machine. Calls are cheap: `lifecycle` asks before every start.
#[async_trait]
pub trait Images: Send + Sync + 'static {
    /// Returns the state of a flavour. A host with the full image may return it for `Base` too.
    fn state(&self, flavour: ImageFlavour) -> ImageState;

    /// Returns when an image may have changed. Spurious returns are allowed, missed changes are not.
    async fn changed(&self);
}
