//! Errors of making the boot files of a virtual machine.

use std::io;
use std::path::PathBuf;

use crate::image::store::ImageStoreError;

/// The boot files of a machine could not be made.
#[derive(Debug, thiserror::Error)]
pub enum VmImageError {
    /// No kernel was fetched yet.
    #[error("there is no kernel for virtual machines")]
    NoKernel,
    /// The image cache could not be used.
    #[error(transparent)]
    Store(#[from] ImageStoreError),
    /// The kernel could not be unpacked.
    #[error("unpack the kernel")]
    Unpack(#[source] io::Error),
    /// The initrd could not be written.
    #[error("write the initrd")]
    Initrd(#[source] io::Error),
    /// The disk could not be made.
    #[error("make a disk of {}", tree.display())]
    RootDisk {
        /// Tree that the disk is made from.
        tree: PathBuf,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
}

impl VmImageError {
    /// Returns a remedy for people.
    pub fn hint(&self) -> Option<&'static str> {
        matches!(self, Self::NoKernel).then_some("run `sandyard image build --format vm`")
    }
}
