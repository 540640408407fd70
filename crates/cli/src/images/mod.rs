//! The images of this machine for the yard: found in the cache, or built in the background.
//!
//! One thread builds the configured images, the base image first. It publishes states through a channel. The cache is the
//! truth, so an image that another process built meanwhile is found too.

pub(crate) mod engine;
pub(crate) mod in_use;
mod prepare;
mod remote;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use sandyard_sandbox::driver::{ImageDigest, LocalImages};
use sandyard_sandbox::drivers::docker::LoadError;
use sandyard_sandbox::image::{
    ArchiveError, ArchiveSnapshot, BuildError, Builder, Cancellation, HostSettings, ImageFlavour,
    ImageRequest, ImageStore, ImageStoreError,
};
use sandyard_sandbox::warden::ImageStates;
use sandyard_server::app::{ImageState, Images};
use tokio::sync::watch;

use crate::config::{Settings, Surroundings};

pub(crate) use prepare::Preparation;
pub(crate) use remote::RemoteImages;

/// Delay between two checks of the cache for an image that is missing.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Why an image could not be built, found or removed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImageError {
    /// The image could not be built.
    #[error("the {flavour} image was not built")]
    Build {
        flavour: ImageFlavour,
        #[source]
        source: BuildError,
    },
    /// The cache can't be used.
    #[error("use the image cache")]
    Store(#[from] ImageStoreError),
    /// The engine did not load the image.
    #[error("the image is not in the engine")]
    Engine(#[source] LoadError),
    /// The image could not be written to a file.
    #[error("write the image")]
    Archive(#[source] ArchiveError),
    /// The thread that wrote the file died.
    #[error("write the image")]
    Interrupted(#[source] std::io::Error),
}

impl ImageError {
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Build { source, .. } => source.hint(),
            Self::Engine(_) => Some("`sandyard doctor docker` tells whether an engine answers".to_owned()),
            Self::Store(_) | Self::Archive(_) | Self::Interrupted(_) => None,
        }
    }
}

/// The images and their states. A clone is a handle to the same images.
#[derive(Debug, Clone)]
pub(crate) struct YardImages {
    store: ImageStore,
    packages: Arc<[String]>,
    snapshot: Option<ArchiveSnapshot>,
    states: Arc<watch::Sender<ImageStates>>,
}

impl YardImages {
    /// Returns the images of the cache. Builds nothing.
    pub(crate) fn new(cache: &Path, packages: Vec<String>, snapshot: Option<ArchiveSnapshot>) -> Self {
        let store = ImageStore::new(cache);
        let images = Self {
            store,
            packages: packages.into(),
            snapshot,
            states: Arc::new(watch::Sender::new(ImageStates::new())),
        };
        for flavour in ImageFlavour::ALL {
            images.set(flavour, images.found(flavour).unwrap_or_else(|| missing(flavour)));
        }
        images
    }

    /// Returns the images that a server with these settings runs sandboxes on.
    pub(crate) fn of(settings: &Settings) -> Self {
        Self::new(&settings.cache, settings.packages.clone(), settings.snapshot.clone())
    }

    /// Returns the states of all flavours, with every change.
    pub(crate) fn states(&self) -> watch::Receiver<ImageStates> {
        self.states.subscribe()
    }

    /// Returns the image of a flavour that sandboxes of this server run on.
    fn request(&self, flavour: ImageFlavour) -> ImageRequest {
        let (with, snapshot) = (self.packages.to_vec(), self.snapshot.clone());
        ImageRequest { with, snapshot, ..ImageRequest::plain(flavour) }
    }

    fn found(&self, flavour: ImageFlavour) -> Option<ImageState> {
        let image = self.store.find(&self.request(flavour)).ok().flatten()?;
        Some(ImageState::Ready { image: image.digest })
    }

    fn set(&self, flavour: ImageFlavour, state: ImageState) {
        self.states.send_if_modified(|states| states.insert(flavour, state.clone()).as_ref() != Some(&state));
    }

    fn get(&self, flavour: ImageFlavour) -> ImageState {
        self.states.borrow().get(&flavour).cloned().unwrap_or_else(|| missing(flavour))
    }
}

impl LocalImages for YardImages {
    fn tree(&self, image: &ImageDigest) -> Option<PathBuf> {
        self.store.tree(image)
    }

    fn probe_image(&self) -> Option<ImageDigest> {
        match self.state(ImageFlavour::Base) {
            ImageState::Ready { image } => Some(image),
            ImageState::Preparing { .. } | ImageState::Missing { .. } => None,
        }
    }
}

#[async_trait]
impl Images for YardImages {
    fn state(&self, flavour: ImageFlavour) -> ImageState {
        self.get(flavour)
    }

    async fn changed(&self) {
        let mut states = self.states.subscribe();
        // A change between the caller's look and this subscription would be missed, so nobody waits longer than this.
        drop(tokio::time::timeout(LOOK_AGAIN, states.changed()).await);
    }
}

/// Returns a builder for this machine.
pub(crate) fn builder(store: ImageStore, surroundings: &Surroundings, cancellation: Cancellation) -> Builder {
    let host = HostSettings { variables: surroundings.variables.clone(), home: surroundings.home() };
    Builder::new(store, host, SystemTime::now, cancellation)
}

fn missing(flavour: ImageFlavour) -> ImageState {
    ImageState::Missing {
        detail: format!("the {flavour} image is not built"),
        hint: format!("run `{}sandyard image build --flavour {flavour}`", as_root()),
    }
}

/// Returns the prefix of a command that only root can run.
fn as_root() -> &'static str {
    if rustix::process::geteuid().is_root() { "" } else { "sudo " }
}
