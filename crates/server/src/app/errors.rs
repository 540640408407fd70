//! What a use case answers when it can't do what it was asked: a kind, a stable code, words, and a way out.

use crate::error_chain::chain;
use crate::store::StoreError;

/// The class of a refusal; `http` turns each into one status code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// Malformed.
    Invalid,
    /// No such job, or none any more.
    NotFound,
    /// Not in this state, or the key was used for something else.
    Conflict,
    /// Over a size limit.
    TooLarge,
    /// Well-formed, but not acceptable.
    Unacceptable,
    /// Too much at once; later it will work.
    Busy,
    /// No capacity, no driver, or no room on disk.
    Unavailable,
    /// Our own fault; the log says more.
    Internal,
}

/// A refusal, as a client may read it. Internals are logged, never put here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct AppError {
    /// Its class.
    pub kind: ErrorKind,
    /// Stable, snake_case.
    pub code: &'static str,
    /// One sentence.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// When trying again makes sense.
    pub retry_after_s: Option<u64>,
}

impl AppError {
    /// A refusal without a hint.
    pub fn new(kind: ErrorKind, code: &'static str, message: impl Into<String>) -> Self {
        Self { kind, code, message: message.into(), hint: None, retry_after_s: None }
    }

    /// The same, with a way out.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same, with a time after which to try again.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }

    /// No such job.
    pub fn unknown_job() -> Self {
        Self::new(ErrorKind::NotFound, "unknown_job", "there is no such job")
            .hint("GET /jobs lists the jobs that are kept")
    }

    /// Our own fault: the cause goes to the log, the client gets a plain sentence.
    pub fn internal(cause: &dyn std::error::Error) -> Self {
        tracing::error!(cause = %chain(cause), "internal error");
        Self::new(ErrorKind::Internal, "internal", "something went wrong inside the server")
    }
}

impl From<StoreError> for AppError {
    fn from(error: StoreError) -> Self {
        if !error.is_transient() {
            return Self::internal(&error);
        }
        tracing::warn!(cause = %chain(&error), "the store is not available");
        Self::new(ErrorKind::Unavailable, "store_unavailable", "the store can't be written at the moment")
            .hint("look for a full disk, a read-only file system, or another program that holds the database")
            .retry_after(5)
    }
}
