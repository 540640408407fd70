//! Failures a guest reports to the host: a closed set of codes and a bounded text.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::limits::TEXT_BYTES;

/// Why a guest could not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestError {
    /// What kind of failure it was.
    pub code: GuestErrorCode,
    /// One lower-case sentence, without a full stop; hostile text as far as the host is concerned.
    pub message: String,
}

/// The kinds of failure, stable across generations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuestErrorCode {
    /// The request can't be understood or breaks a bound.
    BadRequest,
    /// No such file, process or job.
    NotFound,
    /// A path that is malformed or would leave the workspace.
    InvalidPath,
    /// The path leads through a file, or names a file where a directory is needed.
    NotADirectory,
    /// The path names a directory where a file is needed.
    IsADirectory,
    /// The target exists already.
    AlreadyExists,
    /// A directory is not empty and recursion was not asked for.
    NotEmpty,
    /// The file's mode forbids it.
    PermissionDenied,
    /// The workspace is full, by bytes or by inodes.
    NoSpace,
    /// A bound of the protocol or of the sandbox was reached.
    LimitReached,
    /// An edit's `old` text matched never or more than once.
    EditMismatch,
    /// The program could not be started.
    SpawnFailed,
    /// Nothing listens on that port.
    ConnectionRefused,
    /// A person controls the desktop; the text says who.
    Controlled,
    /// The machine's own fault.
    Internal,
}

impl GuestError {
    /// An error with its text cut to the protocol's bound.
    pub fn new(code: GuestErrorCode, message: impl Into<String>) -> Self {
        let mut message: String = message.into();
        if message.len() > TEXT_BYTES {
            let mut end = TEXT_BYTES;
            while !message.is_char_boundary(end) {
                end -= 1;
            }
            message.truncate(end);
        }
        Self { code, message }
    }
}

impl fmt::Display for GuestError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for GuestError {}
