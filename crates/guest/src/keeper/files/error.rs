//! Failures of file operations, and their form for the host.

use rustix::io::Errno;
use sandyard_protocol::{GuestError, GuestErrorCode};

/// A file operation failed.
#[derive(Debug, thiserror::Error)]
pub(in crate::keeper) enum FileError {
    /// The path itself is not acceptable.
    #[error("{0}")]
    InvalidPath(&'static str),
    /// The request makes no sense for this file.
    #[error("{0}")]
    BadRequest(&'static str),
    /// A bound was reached.
    #[error("{0}")]
    LimitReached(&'static str),
    /// An edit's old text did not match exactly once.
    #[error("edit {number}: the old text occurs {found} times, not once")]
    EditMismatch {
        /// Number of the edit, counting from 1.
        number: usize,
        /// Number of matches; counting stops at 2.
        found: usize,
    },
    /// The kernel returned an error.
    #[error("{what}: {errno}")]
    Kernel {
        /// The attempted step, as a verb and its object.
        what: &'static str,
        errno: Errno,
    },
    /// The pipe to keeper failed: nobody can receive an answer.
    #[error("the pipe to keeper failed")]
    Pipe(#[source] std::io::Error),
}

impl FileError {
    /// For `map_err` on a system call.
    pub(super) fn kernel(what: &'static str) -> impl Fn(Errno) -> Self {
        move |errno| Self::Kernel { what, errno }
    }

    /// The error for the host.
    pub(super) fn to_guest(&self) -> GuestError {
        let code = match self {
            Self::InvalidPath(_) => GuestErrorCode::InvalidPath,
            Self::BadRequest(_) => GuestErrorCode::BadRequest,
            Self::LimitReached(_) => GuestErrorCode::LimitReached,
            Self::EditMismatch { .. } => GuestErrorCode::EditMismatch,
            Self::Kernel { errno, .. } => code_of(*errno),
            Self::Pipe(_) => GuestErrorCode::Internal,
        };
        let message = match self {
            // openat2 returns EXDEV when a path would leave the directory it must stay beneath.
            Self::Kernel { errno: Errno::XDEV, .. } => "the path leads out of the workspace".to_owned(),
            Self::Kernel { errno: Errno::LOOP, .. } => "the path leads through a symbolic link".to_owned(),
            other => other.to_string(),
        };
        GuestError::new(code, message)
    }
}

fn code_of(errno: Errno) -> GuestErrorCode {
    match errno {
        Errno::NOENT => GuestErrorCode::NotFound,
        Errno::NOTDIR => GuestErrorCode::NotADirectory,
        Errno::ISDIR => GuestErrorCode::IsADirectory,
        Errno::EXIST => GuestErrorCode::AlreadyExists,
        Errno::NOTEMPTY => GuestErrorCode::NotEmpty,
        Errno::ACCESS | Errno::PERM | Errno::ROFS => GuestErrorCode::PermissionDenied,
        Errno::NOSPC | Errno::DQUOT => GuestErrorCode::NoSpace,
        Errno::XDEV | Errno::LOOP | Errno::NAMETOOLONG | Errno::INVAL => GuestErrorCode::InvalidPath,
        Errno::MFILE | Errno::NFILE | Errno::FBIG | Errno::MLINK => GuestErrorCode::LimitReached,
        _ => GuestErrorCode::Internal,
    }
}
