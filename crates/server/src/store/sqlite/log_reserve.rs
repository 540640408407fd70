//! Space of the store's own on a disk that others may fill.
//!
//! A commit writes to the write-ahead log alone. SQLite begins the log anew after each checkpoint and never makes the file
//! shorter while the database is open. So blocks that are allocated for the log once stay its own, and on a full disk commits
//! still succeed: cancel, delete and prune, which free space again. A ballast file that is removed in need would not do as well:
//! whoever fills the disk would take its space first.
//!
//! A checkpoint may need new blocks in the database. If there are none, it is tried again later, and the log grows within its
//! blocks meanwhile.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::FallocateFlags;
use rustix::io::Errno;

/// Blocks of the log: at some ten pages for each, hundreds of commits without a checkpoint. A checkpoint comes after 4 MiB.
const LOG_BYTES: u64 = 32 * 1024 * 1024;
/// Blocks of the log's index: 32 KiB for each 16 MiB of the log, and one more.
const INDEX_BYTES: u64 = 128 * 1024;
/// Time between two attempts to get the blocks.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// The blocks of one database's log.
#[derive(Debug)]
pub(super) struct LogReserve {
    database: PathBuf,
    state: ReserveState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReserveState {
    /// The log has its blocks, or its file system knows no such thing.
    Settled,
    /// The disk had no space; the time of the last attempt.
    Missing(Instant),
}

impl LogReserve {
    /// Allocates the blocks of an open database.
    pub(super) fn new(database: &Path) -> Self {
        let mut reserve = Self { database: database.to_owned(), state: ReserveState::Settled };
        reserve.fill();
        reserve
    }

    /// Tries again if there was no space before. Costs nothing once the blocks are there.
    pub(super) fn keep_up(&mut self) {
        if let ReserveState::Missing(at) = self.state
            && at.elapsed() >= RETRY_INTERVAL
        {
            self.fill();
        }
    }

    fn fill(&mut self) {
        let filled = allocate(&self.database, "-wal", LOG_BYTES)
            .and_then(|()| allocate(&self.database, "-shm", INDEX_BYTES));
        self.state = match filled {
            Ok(()) => ReserveState::Settled,
            Err(error) if error.raw_os_error() == Some(Errno::OPNOTSUPP.raw_os_error()) => {
                tracing::warn!("the file system of the database can't set space aside for it");
                ReserveState::Settled
            }
            Err(error) => {
                tracing::warn!(%error, "no space could be set aside for the database");
                ReserveState::Missing(Instant::now())
            }
        };
    }
}

/// Allocates blocks for a companion of the database and leaves its size alone: SQLite reads the log up to its end.
fn allocate(database: &Path, ending: &str, bytes: u64) -> io::Result<()> {
    let mut path = database.as_os_str().to_owned();
    path.push(ending);
    let file = File::options().write(true).open(path)?;
    Ok(rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 0, bytes)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use rusqlite::Connection;

    use super::*;

    #[test]
    fn the_log_keeps_its_blocks_over_checkpoints() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("yard.db");
        let connection = Connection::open(&path).unwrap();
        connection.pragma_update(None, "journal_mode", "WAL").unwrap();
        connection.execute_batch("CREATE TABLE t (bytes BLOB)").unwrap();
        let mut reserve = LogReserve::new(&path);
        if reserve.state != ReserveState::Settled {
            return;
        }
        let blocks = || std::fs::metadata(folder.path().join("yard.db-wal")).unwrap().blocks() * 512;
        assert!(blocks() >= LOG_BYTES);
        for _ in 0..20 {
            connection.execute("INSERT INTO t VALUES (zeroblob(1048576))", []).unwrap();
            connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(())).unwrap();
            reserve.keep_up();
        }
        assert!(blocks() >= LOG_BYTES, "a checkpoint gives no block back");
        connection.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0)).unwrap();
    }
}
