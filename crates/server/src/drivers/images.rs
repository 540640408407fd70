//! How the yard learns about images; main supplies it, because main decides when and where they are built.

use async_trait::async_trait;
use sandyard_sandbox::driver::ImageDigest;
use serde::Serialize;

/// Which tree a job needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Flavour {
    /// Shell, Python, Node, git.
    Base,
    /// Base with kernels, desktop and browser.
    Full,
}

impl Flavour {
    /// The name in configuration and status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Base => "base",
            Self::Full => "full",
        }
    }
}

/// How far an image is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageState {
    /// It can be used.
    Ready {
        /// Its content.
        image: ImageDigest,
    },
    /// It is being built.
    Preparing {
        /// How far.
        percent: u8,
        /// What is being done.
        step: String,
    },
    /// It will not come by itself.
    Missing {
        /// Why.
        detail: String,
        /// What to do about it.
        hint: String,
    },
}

/// The images of this machine. Calls are cheap; reconcile asks before every start.
#[async_trait]
pub trait Images: Send + Sync + 'static {
    /// How far this flavour is now. A machine that runs the full tree may give it for `Base` too.
    fn state(&self, flavour: Flavour) -> ImageState;

    /// Returns after some image may have changed; may return too often, never too seldom.
    async fn changed(&self);
}
