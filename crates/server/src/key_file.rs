//! Files that hold a key of the server: for its user alone, whole or absent after a crash.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::disk;

/// Bytes of a key.
pub(crate) const KEY_BYTES: usize = 32;

/// Reads a key from a file that only its owner may read. If there is no file, makes a random key and stores it durably.
pub(crate) fn load_or_create_key(path: &Path) -> Result<[u8; KEY_BYTES], KeyFileError> {
    let failed = |source| KeyFileError::Io { path: path.to_owned(), source };
    let mut key = [0; KEY_BYTES];
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            getrandom::fill(&mut key).map_err(|_| KeyFileError::Random)?;
            disk::write_durably(path, &[&key]).map_err(failed)?;
            return Ok(key);
        }
        Err(error) => return Err(failed(error)),
    };
    // Of the open file, not of the path: the file can't be exchanged between the check and the read.
    let mode = file.metadata().map_err(failed)?.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(KeyFileError::Exposed { path: path.to_owned(), mode });
    }
    file.read_exact(&mut key).map_err(|_| KeyFileError::Empty { path: path.to_owned() })?;
    Ok(key)
}

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
