//! Errors of SQLite in the words of every store.

use rusqlite::ErrorCode;

use crate::store::{OpenStoreError, StoreError};

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        if is_transient(&error) { Self::Unavailable(error.into()) } else { Self::Failed(error.into()) }
    }
}

impl From<rusqlite::Error> for OpenStoreError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Database(error.into())
    }
}

/// Locked, full or read-only, not damaged.
fn is_transient(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::DiskFull
                | ErrorCode::ReadOnly
                | ErrorCode::CannotOpen
                | ErrorCode::SystemIoFailure
        )
    )
}

/// Returns the error of a failed group for one of its callers: rusqlite's errors can't be cloned, so each gets one with the
/// same code.
pub(super) fn copy(error: &rusqlite::Error) -> StoreError {
    match error {
        rusqlite::Error::SqliteFailure(code, text) => {
            rusqlite::Error::SqliteFailure(*code, text.clone()).into()
        }
        other => StoreError::Closed(other.to_string()),
    }
}

/// True after a failed read, write or sync: the content of the disk is then unknown. Full, locked and read-only pass.
pub(super) fn is_fatal(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::SystemIoFailure | ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
    )
}
