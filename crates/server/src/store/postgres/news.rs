//! News of other servers: their commits wake watchers here and change the totals.
//!
//! A commit announces itself with `NOTIFY`. Announcements can be lost with a connection, so a new one begins with a count and wakes all
//! watchers, and the watched jobs are looked at now and then, whatever was announced.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use sandyard_protocol::ErrorChain;
use tokio::sync::{Notify, mpsc};
use tokio::time::MissedTickBehavior;

use super::codecs::SqlValue;
use super::connection::{Connected, Connector, answered};
use super::schema;
use super::totals::{SeenTransactions, TotalsChange};
use super::write_tools::CommitEffects;
use crate::job::{JobId, JobState};
use crate::store::StoreError;
use crate::store::values::damaged;

/// Time between two looks at the watched jobs. Also finds a connection that is cut without notice.
const LOOK: Duration = Duration::from_secs(10);
/// Pause before another attempt to connect.
const PAUSE: Duration = Duration::from_millis(200);
/// Time between two removals of what dead servers left.
const SWEEPS: u32 = 60;

const COUNT_STATES: &str = "SELECT state, COUNT(*) FROM job_states GROUP BY state";
const COUNT_BYTES: &str = "SELECT (COALESCE(SUM(COALESCE(s.artifact_bytes, 0) + p.stdout_bytes - p.stdout_dropped \
    + p.stderr_bytes - p.stderr_dropped + p.recording_bytes + p.journal_bytes + p.audit_bytes), 0))::bigint \
    FROM job_states s JOIN job_progress p USING (number)";
const REVISIONS: &str =
    "SELECT j.id, p.revision FROM jobs j JOIN job_progress p USING (number) WHERE j.id = ANY($1)";
/// Owners and writers that are long gone.
const SWEEP: [&str; 2] = [
    "DELETE FROM owners o WHERE o.lease_until < (extract(epoch FROM now()) * 1000)::bigint - 86400000 \
     AND NOT EXISTS (SELECT 1 FROM job_states s WHERE s.open AND s.lease_owner = o.owner)",
    "DELETE FROM commits WHERE made_at < now() - interval '1 day'",
];

/// Follows the commits of other servers.
pub(super) struct NewsReader {
    pub(super) connector: Arc<Connector>,
    pub(super) effects: CommitEffects,
    /// Name of this store in announcements.
    pub(super) server: String,
    /// Told when another server has queued a job.
    pub(super) queue_grew: Arc<Notify>,
}

/// A connection that hears announcements.
pub(super) struct Listening {
    connected: Connected,
    notes: mpsc::Receiver<String>,
}

impl NewsReader {
    /// Listens, then counts: nothing that is committed meanwhile is missed.
    pub(super) async fn listen(&self) -> Result<Listening, StoreError> {
        let (connected, notes) = self.connector.connect_listening().await?;
        share(&connected).await?;
        answered(connected.client.batch_execute("LISTEN sandyard")).await?;
        self.count(&connected).await?;
        Ok(Listening { connected, notes })
    }

    async fn count(&self, connected: &Connected) -> Result<(), StoreError> {
        let client = &connected.client;
        // One snapshot for all three statements.
        answered(client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")).await?;
        let seen = answered(connected.query("SELECT pg_current_snapshot()::text", &[])).await?;
        let seen: &str = seen.first().map(|row| row.try_get(0)).transpose()?.unwrap_or_default();
        let mut counted = TotalsChange::default();
        for row in answered(connected.query(COUNT_STATES, &[])).await? {
            if let Some(state) = JobState::parse(row.try_get(0)?) {
                counted.count(state, row.try_get(1)?);
            }
        }
        for row in answered(connected.query(COUNT_BYTES, &[])).await? {
            counted.bytes = row.try_get(0)?;
        }
        answered(client.batch_execute("COMMIT")).await?;
        let seen = damaged(SeenTransactions::parse(seen), "snapshot")?;
        self.effects.totals.lock().recount(counted, seen);
        Ok(())
    }

    /// Follows announcements, and connects again whenever the connection is cut. Never returns.
    pub(super) async fn follow(self, first: Listening) {
        let mut listening = first;
        loop {
            let error = self.hear(&mut listening).await;
            tracing::warn!(error = %ErrorChain(&error), "the database's announcements were interrupted");
            listening = loop {
                match self.listen().await {
                    Ok(listening) => break listening,
                    Err(_) => tokio::time::sleep(PAUSE).await,
                }
            };
            // Whatever was committed while nobody listened.
            for job in self.effects.watchers.watched() {
                self.effects.watchers.wake(&job);
            }
            self.queue_grew.notify_one();
        }
    }

    /// Hears announcements until the connection fails.
    async fn hear(&self, listening: &mut Listening) -> StoreError {
        let mut looks = tokio::time::interval_at(tokio::time::Instant::now() + LOOK, LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut revisions, mut looked) = (HashMap::new(), 0_u32);
        loop {
            // Both branches keep what is not taken yet: the channel its notes, the interval its tick.
            tokio::select! {
                note = listening.notes.recv() => match note {
                    Some(note) => self.take(&note),
                    None => return StoreError::Unavailable("the connection was cut".into()),
                },
                _ = looks.tick() => {
                    if let Err(error) = self.look(&listening.connected, &mut revisions).await {
                        return error;
                    }
                    looked = looked.wrapping_add(1);
                    if looked.is_multiple_of(SWEEPS) && let Err(error) = sweep(&listening.connected).await {
                        return error;
                    }
                }
            }
        }
    }

    /// Takes an announcement: `server|transaction|totals|jobs`.
    fn take(&self, note: &str) {
        let mut parts = note.splitn(4, '|');
        let (Some(server), Some(transaction), Some(change), Some(jobs)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return;
        };
        let change = transaction.parse::<u64>().ok().zip(TotalsChange::decode(change));
        if let Some((transaction, change)) = change {
            // Of this server too: one whose answer was lost is known by its announcement alone.
            self.effects.totals.lock().add(transaction, change, std::time::Instant::now());
        }
        if server == self.server {
            return;
        }
        if change.is_some_and(|(_, change)| change.queued() > 0) {
            self.queue_grew.notify_one();
        }
        for job in jobs.split(',').filter_map(JobId::parse) {
            self.effects.watchers.wake(&job);
        }
    }

    /// Wakes the watchers of jobs that have changed since the last look.
    async fn look(
        &self,
        connected: &Connected,
        revisions: &mut HashMap<JobId, i64>,
    ) -> Result<(), StoreError> {
        let watched = self.effects.watchers.watched();
        let names = watched.iter().map(|id| id.as_str().to_owned()).collect();
        let mut found = HashMap::new();
        for row in answered(connected.query(REVISIONS, &[SqlValue::Texts(names)])).await? {
            if let Some(id) = JobId::parse(row.try_get(0)?) {
                found.insert(id, row.try_get(1)?);
            }
        }
        for id in &watched {
            // A job without an earlier revision is watched since the last look: its watcher has read it since.
            if revisions.get(id).is_some_and(|revision| found.get(id) != Some(revision)) {
                self.effects.watchers.wake(id);
            }
        }
        *revisions = found;
        Ok(())
    }
}

/// The database notices the end of a copy a moment after its connection was closed.
const SHARE_ATTEMPTS: u32 = 30;
const SHARE_INTERVAL: Duration = Duration::from_millis(100);

/// Keeps a copy of the store from beginning while this connection lives.
async fn share(connected: &Connected) -> Result<(), StoreError> {
    for _ in 0..SHARE_ATTEMPTS {
        let shared = answered(connected.query(schema::SHARE, &[])).await?;
        if shared.first().map(|row| row.try_get(0)).transpose()? == Some(true) {
            return Ok(());
        }
        tokio::time::sleep(SHARE_INTERVAL).await;
    }
    Err(StoreError::Unavailable("the store is being copied".into()))
}

async fn sweep(connected: &Connected) -> Result<(), StoreError> {
    for sql in SWEEP {
        answered(connected.query(sql, &[])).await?;
    }
    Ok(())
}
