//! What can go wrong in a store.

use std::path::PathBuf;

use crate::job::JobId;
use crate::job::apply::ChangeError;

/// A read or write failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// Another owner has taken the job; this one must let go of it.
    #[error("job {0} belongs to another owner")]
    Stale(JobId),
    /// The row can't take the change.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// The database refused.
    #[error("database")]
    Database(#[from] rusqlite::Error),
    /// A stored value can't be read back.
    #[error("stored {what} can't be read")]
    Damaged { what: &'static str },
    /// The writer has stopped.
    #[error("the store is closed: {0}")]
    Closed(String),
}

impl StoreError {
    /// Whether trying again later may help: locked, full or read-only, not damaged.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Database(error) => {
                use rusqlite::ErrorCode;
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
            Self::Closed(_) => true,
            Self::Stale(_) | Self::Change(_) | Self::Damaged { .. } => false,
        }
    }

    /// Whether the job belongs to somebody else now.
    pub(crate) fn is_stale(&self) -> bool {
        matches!(self, Self::Stale(_))
    }
}

/// A store can't be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    /// A folder or file of the yard can't be made.
    #[error("prepare {}", path.display())]
    Prepare {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Another server holds the yard.
    #[error("another server works on {}", path.display())]
    Held {
        /// The data directory.
        path: PathBuf,
    },
    /// The database is of a later release.
    #[error("the database has schema {found}, this release knows {known}")]
    Newer {
        /// Its version.
        found: i64,
        /// Ours.
        known: i64,
    },
    /// The database can't be opened or migrated.
    #[error("open the database")]
    Database(#[from] rusqlite::Error),
    /// The writer's thread can't be started.
    #[error("start the writer's thread")]
    Thread(#[source] std::io::Error),
}
