//! The images of a yard whose warden finds and builds them.

use async_trait::async_trait;
use sandyard_sandbox::warden::ImageStates;
use sandyard_server::app::{ImageFlavour, ImageState, Images};
use tokio::sync::watch;

use super::{LOOK_AGAIN, missing};

/// The states of images, as the warden last told them.
pub(crate) struct RemoteImages {
    states: watch::Receiver<ImageStates>,
}

impl RemoteImages {
    pub(crate) fn new(states: watch::Receiver<ImageStates>) -> Self {
        Self { states }
    }
}

#[async_trait]
impl Images for RemoteImages {
    fn state(&self, flavour: ImageFlavour) -> ImageState {
        self.states.borrow().get(&flavour).cloned().unwrap_or_else(|| missing(flavour))
    }

    async fn changed(&self) {
        let mut states = self.states.clone();
        // A change between the caller's look and this call would be missed, so nobody waits longer than this.
        drop(tokio::time::timeout(LOOK_AGAIN, states.changed()).await);
    }
}
