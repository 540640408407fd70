//! Errors of files that hold a key of the server.

use std::path::PathBuf;

/// The key file can't be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// Reading or writing failed.
    #[error("use the key file {path}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The failure.
        #[source]
        source: std::io::Error,
    },
    /// Other users can read the file.
    #[error("the key file {path} can be read by others (mode {mode:o}); it must be 0600")]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Permission bits of the file.
        mode: u32,
    },
    /// The file contains no key.
    #[error("the key file {path} holds no key")]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The operating system provided no randomness.
    #[error("no randomness from the operating system")]
    Random,
}
