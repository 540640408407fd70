//! Errors of PostgreSQL in the words of every store.

use std::error::Error as _;

use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use crate::store::{OpenStoreError, StoreError};

/// Classes of errors that pass: connections, conflicts of transactions, lack of resources, a server that starts or stops, its disk.
const TRANSIENT_CLASSES: [&str; 5] = ["08", "40", "53", "57", "58"];

impl From<Error> for StoreError {
    fn from(error: Error) -> Self {
        if is_transient(&error) { Self::Unavailable(error.into()) } else { Self::Failed(error.into()) }
    }
}

impl From<Error> for OpenStoreError {
    fn from(error: Error) -> Self {
        Self::Database(error.into())
    }
}

/// True if the same statement may succeed later.
pub(super) fn is_transient(error: &Error) -> bool {
    match error.code() {
        // A standby that a failover has not made the primary yet, and a lock that somebody holds for long.
        Some(code) if *code == SqlState::READ_ONLY_SQL_TRANSACTION => true,
        Some(code) if *code == SqlState::LOCK_NOT_AVAILABLE => true,
        Some(code) => TRANSIENT_CLASSES.iter().any(|class| code.code().starts_with(class)),
        None => is_cut(error),
    }
}

/// True if the connection is gone, or never was.
pub(super) fn is_cut(error: &Error) -> bool {
    let by_the_server = error.code().is_some_and(|code| {
        [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::CANNOT_CONNECT_NOW].contains(code)
    });
    let is_input_or_output = error.source().is_some_and(|source| source.is::<std::io::Error>());
    by_the_server || error.is_closed() || is_input_or_output
}

/// True if another transaction has stored an idempotency key meanwhile. Run again, the write finds it.
pub(super) fn is_taken_key(error: &StoreError) -> bool {
    let StoreError::Failed(source) = error else { return false };
    let error = source.downcast_ref::<Error>().and_then(Error::as_db_error);
    error.is_some_and(|error| {
        *error.code() == SqlState::UNIQUE_VIOLATION && error.table() == Some("idempotency_keys")
    })
}

/// True if the database has answered, with a refusal. Its transaction is undone then.
pub(super) fn is_refusal(error: &StoreError) -> bool {
    let (StoreError::Failed(source) | StoreError::Unavailable(source)) = error else { return false };
    source.downcast_ref::<Error>().is_some_and(|error| error.code().is_some())
}

/// The failure of a group for one of its callers. Errors of the driver can't be cloned, so each gets one of the same kind and text.
pub(super) fn copy(error: &StoreError) -> StoreError {
    let text = sandyard_protocol::ErrorChain(error).to_string();
    if error.is_transient() { StoreError::Unavailable(text.into()) } else { StoreError::Failed(text.into()) }
}

/// The database did not answer in time.
pub(super) fn late() -> StoreError {
    StoreError::Unavailable("the database did not answer in time".into())
}
