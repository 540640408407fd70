//! Errors of all stores, independent of their database.

use std::error::Error;
use std::path::PathBuf;

use crate::job::apply::ChangeError;
use crate::job::{JobId, RandomError};
use crate::key_file::KeyFileError;

/// An error of a database, whose type only its store knows.
type DatabaseError = Box<dyn Error + Send + Sync>;

/// A read or write failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// Another owner has taken the job; the caller must stop working on it.
    #[error("job {0} belongs to another owner")]
    Stale(JobId),
    /// The row can't take the change.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// The database failed, and trying again later may help: it is locked, full, read-only or out of reach.
    #[error("database")]
    Unavailable(#[source] DatabaseError),
    /// The database failed for good.
    #[error("database")]
    Failed(#[source] DatabaseError),
    /// A stored value can't be read back.
    #[error("stored {what} can't be read")]
    Damaged { what: &'static str },
    /// A row needs a name or a secret, and there is no randomness to make one.
    #[error(transparent)]
    Random(#[from] RandomError),
    /// The writer has stopped.
    #[error("the store is closed: {0}")]
    Closed(String),
}

impl StoreError {
    /// True if trying again later may help.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Random(_) | Self::Closed(_))
    }

    /// True if the job belongs to another owner now.
    pub(crate) fn is_stale(&self) -> bool {
        matches!(self, Self::Stale(_))
    }
}

/// A store can't be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenStoreError {
    /// The file with the store's key can't be used.
    #[error(transparent)]
    Key(#[from] KeyFileError),
    /// A folder or file of the yard can't be made.
    #[error("prepare {}", path.display())]
    Prepare {
        /// The folder or file.
        path: PathBuf,
        /// The operating system's reason.
        #[source]
        source: std::io::Error,
    },
    /// Another server holds the yard.
    #[error("another server works on {}", path.display())]
    Held {
        /// The data directory that another server holds.
        path: PathBuf,
    },
    /// The database is of a later release.
    #[error("the database has schema {found}, this release knows {known}")]
    Newer {
        /// Version of the database.
        found: i64,
        /// Latest version that this release knows.
        known: i64,
    },
    /// The database can't be opened or migrated.
    #[error("open the database")]
    Database(#[source] DatabaseError),
    /// A server is connected to the database.
    #[error("a server works on the database")]
    Served,
    /// The yard's requests are sealed with another key than the one of this data directory.
    #[error("the yard has another key: copy `store.key` from the data directory of its first server")]
    OtherKey,
    /// The database can't be used.
    #[error("open the database")]
    Store(#[from] StoreError),
    /// The writer's thread can't be started.
    #[error("start the writer's thread")]
    Thread(#[source] std::io::Error),
}
