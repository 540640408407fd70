//! Failures a guest reports to the host: a closed set of codes and a bounded text.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::limits::TEXT_BYTES;

/// Why a guest could not serve a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestError {
    /// The kind of failure.
    pub code: GuestErrorCode,
    /// One lower-case sentence without a full stop. Hostile text: the host bounds it before use.
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
    /// The directory is not empty and the request is not recursive.
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
    /// A person controls the desktop; the message names the person.
    Controlled,
    /// The guest itself failed.
    Internal,
}

impl GuestError {
    /// Creates an error and cuts its message to the protocol's bound.
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
