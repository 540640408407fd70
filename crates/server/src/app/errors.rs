//! The error of every use case: a stable code of the HTTP contract, a sentence, and a hint.

use std::error::Error;

use sandyard_api::ErrorCode;
use sandyard_protocol::ErrorChain;

use crate::disk;
use crate::store::StoreError;

/// A refusal, as a client may read it. Internals are logged, never put here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct AppError {
    /// The code of the HTTP contract, which also has the status.
    pub code: ErrorCode,
    /// One sentence for people, without internals.
    pub message: String,
    /// Advice for the client.
    pub hint: Option<String>,
    /// Seconds after which the client may try again.
    pub retry_after_s: Option<u64>,
}

impl AppError {
    /// A refusal without a hint.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None, retry_after_s: None }
    }

    /// Adds advice for the client.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the time after which a client may try again.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }

    /// The refusal for an unknown job. Also used for a job of somebody else, so that ids can't be probed.
    pub fn unknown_job() -> Self {
        Self::new(ErrorCode::UnknownJob, "there is no such job")
            .hint("GET /jobs lists the jobs that are kept")
    }

    /// The job's workspace is being saved, so nothing may change it.
    pub fn finishing() -> Self {
        Self::new(ErrorCode::Finishing, "the job is finishing, and its workspace is being saved")
            .hint("the change may be missing in the result; a sandbox that was scheduled with `keep` opens again afterwards")
            .retry_after(1)
    }

    /// The server is stopping; the next one answers.
    pub fn stopping() -> Self {
        Self::new(ErrorCode::SandboxNotLive, "the server is stopping")
            .hint("repeat the call when the server is back; the job goes on meanwhile")
            .retry_after(1)
    }

    /// The caller may not do this.
    pub fn missing_scope() -> Self {
        Self::new(ErrorCode::PermissionDenied, "this key does not allow that")
    }

    /// A fault of the server: the cause goes to the log, the client gets a plain sentence.
    pub fn internal(cause: &(dyn Error + 'static)) -> Self {
        if let Some(refusal) = Self::out_of_files(cause) {
            return refusal;
        }
        tracing::error!(cause = %ErrorChain(cause), "internal error");
        Self::new(ErrorCode::Internal, "something went wrong inside the server")
    }

    /// The refusal of a process without free file descriptors, which fails wherever a file is opened.
    pub(super) fn out_of_files(cause: &(dyn Error + 'static)) -> Option<Self> {
        let mut causes =
            std::iter::successors(Some(cause), |cause: &&(dyn Error + 'static)| (*cause).source());
        let found = causes.any(|cause| cause.downcast_ref().is_some_and(disk::is_out_of_files));
        found.then(open_files)
    }
}

impl From<StoreError> for AppError {
    fn from(error: StoreError) -> Self {
        if !error.is_transient() {
            return Self::internal(&error);
        }
        // A database says only that it can't open a file.
        if let Some(refusal) =
            Self::out_of_files(&error).or_else(|| disk::has_no_descriptor().then(open_files))
        {
            return refusal;
        }
        tracing::warn!(cause = %ErrorChain(&error), "the store is not available");
        Self::new(ErrorCode::StoreUnavailable, "the store can't be written at the moment")
            .hint("look for a full disk, a read-only file system, or another program that holds the database")
            .retry_after(5)
    }
}

fn open_files() -> AppError {
    tracing::error!("the server has no file descriptor left");
    AppError::new(ErrorCode::TooManyOpenFiles, "the server has too many files open")
        .hint("raise its limit of open files (`LimitNOFILE` of the unit, `ulimit -n`), or run fewer jobs at once")
        .retry_after(5)
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn d7_a_process_without_descriptors_does_not_blame_the_disk() {
        let cause = |number| io::Error::other(io::Error::from_raw_os_error(number));
        for number in [23, 24] {
            assert_eq!(AppError::internal(&cause(number)).code, ErrorCode::TooManyOpenFiles);
        }
        assert_eq!(AppError::internal(&cause(5)).code, ErrorCode::Internal);
        let store = StoreError::Unavailable(Box::new(cause(24)));
        assert_eq!(AppError::from(store).code, ErrorCode::TooManyOpenFiles);
    }
}
