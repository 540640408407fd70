//! Failures of blob storage, common to folders and object stores.

use std::error::Error;
use std::fmt;
use std::io;

/// Why a call failed, as far as callers act on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlobErrorKind {
    /// There is no such blob.
    NotFound,
    /// The storage can't be used now: full, read-only, out of reach. Another try may work.
    Transient,
    /// The blob exists but is not the stored one: another try will not help.
    Damaged,
}

/// A blob, or a set of them, could not be read or written.
#[derive(Debug)]
pub(crate) struct BlobError {
    pub(crate) kind: BlobErrorKind,
    /// Name of the key or prefix of the scope.
    key: String,
    source: Box<dyn Error + Send + Sync>,
}

impl BlobError {
    /// The kind follows from the error of the operating system.
    pub(crate) fn new(key: String, source: io::Error) -> Self {
        let kind = match source.kind() {
            io::ErrorKind::NotFound => BlobErrorKind::NotFound,
            io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => BlobErrorKind::Damaged,
            _ => BlobErrorKind::Transient,
        };
        Self { kind, key, source: source.into() }
    }

    /// An error of another kind of storage.
    pub(crate) fn of_kind(
        kind: BlobErrorKind,
        key: String,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self { kind, key, source: source.into() }
    }
}

impl fmt::Display for BlobError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.kind {
            BlobErrorKind::NotFound => "is missing",
            BlobErrorKind::Transient => "can't be read or written now",
            BlobErrorKind::Damaged => "is damaged",
        };
        write!(formatter, "blob {} {state}", self.key)
    }
}

impl Error for BlobError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(self.source.as_ref())
    }
}
