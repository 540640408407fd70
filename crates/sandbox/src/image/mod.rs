//! Images: the trees that sandboxes run, made once from the recipe in `images/agent/` and kept in a cache.
//!
//! `recipe` is the recipe itself, inside this program; `store` finds, lists and removes finished images.
//! `build` and `work` make one in a temporary directory with settings that `host` and `sources` take from the
//! host; `verify` refuses a tree that a sandbox must not get. Only then is it renamed into the store, so a
//! half-made image is never seen. `archive` writes a finished image in the form that container engines load.
//! All calls block: run them on a thread that stays, because the death of that thread ends the build.

mod architecture;
mod archive;
mod build;
mod build_error;
mod cancellation;
mod facts;
mod host;
mod lock;
mod manifest;
mod progress;
mod recipe;
mod snapshot;
mod sources;
mod state;
mod steps;
mod store;
mod verify;
pub mod vm;
mod work;

#[cfg(test)]
mod store_tests;

pub use crate::driver::ImageDigest;
pub use architecture::ImageArchitecture;
pub use archive::{ArchiveError, FLAVOUR_LABEL, IMAGE_LABEL, ImageArchive, reference, write_file};
pub use build::Builder;
pub use build_error::BuildError;
pub use cancellation::Cancellation;
pub use facts::{Image, ImageFacts, ImageFlavour, ImageRequest};
pub use host::HostSettings;
pub use manifest::ManifestError;
pub use progress::BuildProgress;
pub use snapshot::ArchiveSnapshot;
pub use state::ImageState;
pub use steps::StepError;
pub use store::{ImageStore, ImageStoreError};
pub use verify::ImageFault;
