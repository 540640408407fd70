//! Connections for reading. Each serves several reads at once, so a few serve many.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_postgres::Row;

use super::codecs::SqlValue;
use super::connection::{Connected, Connector, answered};
use crate::store::StoreError;

/// Connections for reading.
const READERS: usize = 4;
/// Time for which a read tries again while there is no database: a restart of it takes less.
const RETRY_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// The connections for reading of one store.
pub(super) struct Readers {
    connector: Arc<Connector>,
    slots: Vec<ReaderSlot>,
}

#[derive(Default)]
struct ReaderSlot {
    connected: Mutex<Option<Arc<Connected>>>,
    /// Reads that use it now.
    reads: AtomicUsize,
}

/// Counts a read for as long as it lives.
struct CountedRead<'a>(&'a AtomicUsize);

impl Drop for CountedRead<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Readers {
    pub(super) fn new(connector: Arc<Connector>) -> Self {
        Self { connector, slots: (0..READERS).map(|_| ReaderSlot::default()).collect() }
    }

    /// Returns the rows of a query. Tries again when the connection is cut: a read changes nothing.
    pub(super) async fn query(&self, sql: &str, values: &[SqlValue]) -> Result<Vec<Row>, StoreError> {
        let deadline = Instant::now() + RETRY_TIMEOUT;
        loop {
            match self.try_query(sql, values).await {
                Err(error) if error.is_transient() && Instant::now() + PAUSE < deadline => {
                    tokio::time::sleep(PAUSE).await;
                }
                result => return result,
            }
        }
    }

    /// Returns the only row of a query that has at most one.
    pub(super) async fn query_one(&self, sql: &str, values: &[SqlValue]) -> Result<Option<Row>, StoreError> {
        Ok(self.query(sql, values).await?.into_iter().next())
    }

    async fn try_query(&self, sql: &str, values: &[SqlValue]) -> Result<Vec<Row>, StoreError> {
        // A slow read must not hold up those that take microseconds.
        let quietest = self.slots.iter().min_by_key(|slot| slot.reads.load(Ordering::Relaxed));
        let Some(slot) = quietest else { return Err(StoreError::Closed("stopped".into())) };
        slot.reads.fetch_add(1, Ordering::Relaxed);
        let _counted = CountedRead(&slot.reads);
        let connected = self.connected(slot).await?;
        let answer = answered(connected.query(sql, values)).await;
        // One that does not answer may never do so again.
        if answer.as_ref().is_err_and(StoreError::is_transient) {
            slot.connected.lock().await.take_if(|present| Arc::ptr_eq(present, &connected));
        }
        answer
    }

    async fn connected(&self, slot: &ReaderSlot) -> Result<Arc<Connected>, StoreError> {
        let mut place = slot.connected.lock().await;
        if let Some(connected) = place.as_ref().filter(|connected| !connected.is_closed()) {
            return Ok(Arc::clone(connected));
        }
        let connected = Arc::new(self.connector.connect().await?);
        *place = Some(Arc::clone(&connected));
        Ok(connected)
    }
}
