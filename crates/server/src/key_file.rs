//! Errors of files that hold a key of the server.

use std::path::PathBuf;

/// The key file can't be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// Reading or writing failed.
    #[error("use the key file {path}")]
    Io {
        /// Path of the key file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// Other users can read the file.
    #[error("the key file {path} can be read by others (mode {mode:o}); it must be 0600")]
    Exposed {
        /// Path of the exposed key file.
        path: PathBuf,
        /// Permission bits of the file.
        mode: u32,
    },
    /// The file contains no key.
    #[error("the key file {path} holds no key")]
    Empty {
        /// Path of the empty key file.
        path: PathBuf,
    },
    /// The operating system provided no randomness.
    #[error("no randomness from the operating system")]
    Random,
}
