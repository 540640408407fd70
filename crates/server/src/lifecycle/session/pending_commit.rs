//! The commit of a session that is under way.

use futures_util::future::BoxFuture;

use crate::job::JobRow;
use crate::output::Flush;
use crate::store::StoreError;

/// A commit under way; yields the row, the output and the last event that it has committed.
pub(super) type PendingCommit = BoxFuture<'static, Result<(JobRow, Flush, u64), StoreError>>;

/// Waits for the commit under way; for ever if there is none.
pub(super) async fn next_commit(
    pending: &mut Option<PendingCommit>,
) -> Result<(JobRow, Flush, u64), StoreError> {
    match pending {
        Some(pending) => pending.await,
        None => std::future::pending().await,
    }
}
