//! The store: the truth about jobs and sandboxes. SQLite by default; another database joins by implementing [`Store`].
//!
//! The interface speaks of jobs and sandboxes, not of tables. A store reads rows, asks [`rules`] what to do, and writes the
//! answer in one commit, which also assigns the ids of its events. A write by an owner carries its [`JobFence`](crate::job::JobFence) and is refused
//! once another owner has taken the job. After a commit, everyone who watches the job is woken. `conformance` holds every store
//! to these promises; `memory` is a second store for tests, which shows that the rules suffice.

mod audit_lines;
mod columns;
#[cfg(test)]
mod conformance;
mod contract;
mod copy_side;
mod copying;
mod errors;
#[cfg(test)]
mod memory;
#[cfg(test)]
mod memory_texts;
mod postgres;
#[cfg(test)]
mod queue_measure;
mod rows;
pub(crate) mod rules;
mod sealing;
mod signer;
mod sqlite;
mod values;
mod watch;
mod write_weight;
mod yard_lock;

use std::path::Path;
use std::sync::Arc;

pub(crate) use audit_lines::audit_lines;
pub(crate) use contract::{INLINE_BYTES, JobClaim, Store};
pub use copying::{BadCopyPlace, CopyPlace, CopyProgress, CopyStoreError, copy_store};
pub(crate) use errors::{OpenStoreError, StoreError};
pub use postgres::{BadPostgresUrl, PostgresUrl};
pub(crate) use rows::{
    Appended, AuditOf, EndedJob, InsertJob, Inserted, Retained, Said, StateCounts, StoredKey, StoredRequest,
};
pub(crate) use signer::AuditSigner;
pub(crate) use watch::JobWatch;
pub(crate) use yard_lock::YardLock;

use crate::clock::Clock;

/// The kind and place of a yard's store.
#[derive(Debug, Clone, Default)]
pub enum StoreConfig {
    /// A SQLite database in the data directory, for one server.
    #[default]
    Sqlite,
    /// A PostgreSQL database, which several servers share. Each has a data directory of its own.
    Postgres(PostgresUrl),
}

/// Opens the store of a yard, and brings an older one up to date. Blocks.
pub(crate) fn open(
    config: &StoreConfig,
    data: &Path,
    lock: YardLock,
    signer: AuditSigner,
    clock: Clock,
) -> Result<Arc<dyn Store>, OpenStoreError> {
    Ok(match config {
        StoreConfig::Sqlite => Arc::new(sqlite::SqliteStore::open(data, lock, signer, clock)?),
        StoreConfig::Postgres(url) => {
            Arc::new(postgres::PostgresStore::open(url, data, lock, signer, clock)?)
        }
    })
}
