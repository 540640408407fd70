//! The records of an audit as a stream of lines.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};

use super::{AuditOf, Store, StoreError};

/// Records read at once.
const PAGE_RECORDS: usize = 500;

/// Returns the records from `first` to `last`, each with a newline.
pub(crate) fn audit_lines(
    store: Arc<dyn Store>,
    of: AuditOf,
    first: u64,
    last: u64,
) -> impl futures_util::Stream<Item = Result<Bytes, StoreError>> + Send {
    let pages = stream::try_unfold((store, first), move |(store, next)| async move {
        if next > last {
            return Ok(None);
        }
        let limit = usize::try_from(last + 1 - next).unwrap_or(PAGE_RECORDS).min(PAGE_RECORDS);
        let page = store.audit(of, next, limit).await?;
        // A job that is deleted meanwhile has no further records.
        let Some(end) = page.last().map(|line| line.number) else { return Ok(None) };
        Ok::<_, StoreError>(Some((page, (store, end + 1))))
    });
    pages.map(|page| {
        page.map(|page| {
            let text: String = page.into_iter().flat_map(|line| [line.text, "\n".to_owned()]).collect();
            Bytes::from(text)
        })
    })
}
