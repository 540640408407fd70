//! The source of images. The command supplies it, because it decides when and where images are built.

use async_trait::async_trait;
pub use sandyard_sandbox::image::{ImageFlavour, ImageState};

/// The images of this machine. Calls are cheap: `lifecycle` asks before every start.
#[async_trait]
pub trait Images: Send + Sync + 'static {
    /// Returns the state of a flavour. A host with the full image may return it for `Base` too.
    fn state(&self, flavour: ImageFlavour) -> ImageState;

    /// Returns when an image may have changed. Spurious returns are allowed, missed changes are not.
    async fn changed(&self);
}
