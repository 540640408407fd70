//! Errors of a build.

use std::io;

use super::architecture::ImageArchitecture;
use super::facts::ImageFlavour;
use super::manifest::ManifestError;
use super::steps::StepError;
use super::store::ImageStoreError;
use super::verify::ImageFault;
use super::vm::VmImageError;

/// An image could not be made.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The caller is not root, who alone can make trees with many owners.
    #[error("building an image needs root")]
    NotRoot,
    /// Tools of the host are missing.
    #[error("building an image needs programs of the packages {0}")]
    MissingTools(String),
    /// This machine runs no programs of the image.
    #[error("this machine runs no programs for {0}")]
    Architecture(ImageArchitecture),
    /// `--with` has a value that is no Debian package name.
    #[error("`{0}` is not the name of a Debian package")]
    PackageName(String),
    /// The image cache could not be used.
    #[error(transparent)]
    Store(#[from] ImageStoreError),
    /// The host's mirrors, certificates or settings could not be collected.
    #[error("collect the host's mirrors, certificates and settings")]
    Host(#[source] io::Error),
    /// A step of the build failed.
    #[error("{phase}")]
    Step {
        /// Name of the phase, for people.
        phase: String,
        /// Failure of the tool.
        #[source]
        source: StepError,
    },
    /// The finished tree must not be used.
    #[error("the finished tree of flavour {flavour} is not fit for a sandbox")]
    Unfit {
        /// Flavour of the image.
        flavour: ImageFlavour,
        /// Fault of the tree.
        #[source]
        source: ImageFault,
    },
    /// The boot files of virtual machines could not be made.
    #[error(transparent)]
    Vm(#[from] VmImageError),
    /// The caller cancelled the build.
    #[error("the build was cancelled")]
    Cancelled,
}

impl BuildError {
    /// Returns a remedy for people.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NotRoot => Some(
                "root builds images and every user of this machine uses them: sudo sandyard image build"
                    .to_owned(),
            ),
            Self::MissingTools(packages) => Some(format!("apt-get install {packages}")),
            Self::Architecture(_) => Some("apt-get install qemu-user-static binfmt-support".to_owned()),
            Self::Host(_) => {
                Some("if a keyring is missing: apt-get install debian-archive-keyring".to_owned())
            }
            Self::Step { .. } => Some("the whole output is in logs/ of the image cache".to_owned()),
            _ => None,
        }
    }
}

impl From<ManifestError> for BuildError {
    fn from(error: ManifestError) -> Self {
        Self::Store(error.into())
    }
}
