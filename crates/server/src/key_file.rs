//! Why a file with a key of the server can't be used.

use std::path::PathBuf;

/// The key file can't be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// It can't be read or written.
    #[error("use the key file {path}")]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Others can read it.
    #[error("the key file {path} can be read by others (mode {mode:o}); it must be 0600")]
    Exposed {
        /// Which.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It has no key in it.
    #[error("the key file {path} holds no key")]
    Empty {
        /// Which.
        path: PathBuf,
    },
    /// The operating system gave no randomness.
    #[error("no randomness from the operating system")]
    Random,
}
