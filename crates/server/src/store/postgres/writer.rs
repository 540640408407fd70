//! Tasks that write, with group commit: each takes every write that waits, runs them in one transaction, and answers after its end.
//!
//! A transaction that the database has not committed, because the connection was cut, the database was restarted, or another
//! transaction was in the way, is run again. Whether a cut one was committed is never guessed: each leaves a row that says so, and
//! nobody looks for the row before the database has let go of the transaction.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::codecs::SqlStep;
use super::codecs::SqlValue;
use super::connection::{Connected, Connector, answered};
use super::errors;
use super::flush;
use super::group::{WantedRows, WriteGroup};
use super::totals::TotalsChange;
use super::write_tools::{CommitEffects, PostgresTools};
use crate::job::JobId;
use crate::store::StoreError;
use crate::store::write_weight::WriteWeight;

/// Writes that may wait; callers beyond it wait their turn.
const MAX_QUEUED_WRITES: usize = 1024;
/// Writes in one transaction: bounds how long the first of them waits, and how many rows are locked at once.
const MAX_GROUPED_WRITES: usize = 128;
/// Time for which a group is run again. A restart of the database takes less.
const RETRY_TIMEOUT: Duration = Duration::from_secs(6);
/// Pause before another attempt.
const PAUSE: Duration = Duration::from_millis(50);

/// Begins a transaction. The lock is held to its end, so that it is over when another connection has the lock.
const BEGIN: &str = "BEGIN";
const HOLD: &str = "SELECT pg_advisory_xact_lock($1), pg_current_xact_id()::text";
const MARK: &str = "INSERT INTO commits (writer, number) VALUES ($1, $2)";
const UNMARK: &str = "DELETE FROM commits WHERE writer = $1 AND number = $2";
const FIND_MARK: &str = "SELECT 1 FROM commits WHERE writer = $1 AND number = $2";
const ANNOUNCE: &str = "SELECT pg_notify('sandyard', $1)";
/// A light group does not wait for the disk: its rows reach it with the next commit that does.
const LIGHTLY: &str = "SET LOCAL synchronous_commit = off";

/// One write. It may run several times, each time in another transaction, of which at most one is committed.
#[async_trait]
pub(super) trait GroupedWrite: Send + Sync + 'static {
    type Answer: Send + 'static;

    fn weight(&self) -> WriteWeight {
        WriteWeight::Synced
    }

    /// Names the rows that it will ask for.
    fn want(&self, wanted: &mut WantedRows);

    /// Runs in a group. An error that is not the database's leaves the group as it was.
    async fn run(&self, group: &mut WriteGroup<'_>) -> Result<Self::Answer, StoreError>;
}

/// A write whose answer's type is hidden from the queue.
#[async_trait]
trait WaitingWrite: Send + Sync {
    fn weight(&self) -> WriteWeight;
    fn want(&self, wanted: &mut WantedRows);
    /// Runs the write and keeps its answer. Fails if the database did.
    async fn run(&mut self, group: &mut WriteGroup<'_>) -> Result<(), StoreError>;
    /// Sends the kept answer after the commit, or the failure.
    fn answer(self: Box<Self>, failure: Option<StoreError>);
}

struct PendingGroupWrite<W: GroupedWrite> {
    write: W,
    result: Option<Result<W::Answer, StoreError>>,
    reply: oneshot::Sender<Result<W::Answer, StoreError>>,
}

#[async_trait]
impl<W: GroupedWrite> WaitingWrite for PendingGroupWrite<W>
where
    W::Answer: Sync,
{
    fn weight(&self) -> WriteWeight {
        self.write.weight()
    }

    fn want(&self, wanted: &mut WantedRows) {
        self.write.want(wanted);
    }

    async fn run(&mut self, group: &mut WriteGroup<'_>) -> Result<(), StoreError> {
        match self.write.run(group).await {
            // The transaction is lost, with everything in it.
            Err(error @ (StoreError::Unavailable(_) | StoreError::Failed(_))) => Err(error),
            result => {
                self.result = Some(result);
                Ok(())
            }
        }
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        // A rule's own error stands even if the commit failed too. A success counts only if the commit succeeded.
        let result = match (self.result, failure) {
            (Some(Ok(_)) | None, Some(failure)) => Err(failure),
            (Some(result), _) => result,
            (None, None) => Err(StoreError::Closed("not run".into())),
        };
        // The caller may have gone away; the commit stands.
        let _ = self.reply.send(result);
    }
}

/// Sends writes to the tasks. Dropping the last one ends them.
#[derive(Clone)]
pub(super) struct PostgresWriter {
    queue: mpsc::Sender<Box<dyn WaitingWrite>>,
}

impl PostgresWriter {
    /// Starts tasks on the store's runtime, each with a connection of its own. Two overlap: one computes while the other waits for the
    /// disk.
    pub(super) fn start(
        tasks: usize,
        connector: &Arc<Connector>,
        tools: &Arc<PostgresTools>,
        effects: &CommitEffects,
        runtime: &tokio::runtime::Handle,
    ) -> Result<(Self, Vec<tokio::task::JoinHandle<()>>), StoreError> {
        let (queue, writes) = mpsc::channel(MAX_QUEUED_WRITES);
        let writes = Arc::new(tokio::sync::Mutex::new(writes));
        let mut started = Vec::with_capacity(tasks);
        for _ in 0..tasks {
            let task = WriterTask {
                connector: Arc::clone(connector),
                tools: Arc::clone(tools),
                effects: effects.clone(),
                connected: None,
                id: random_id()?,
                group: 0,
                marked: None,
            };
            started.push(runtime.spawn(task.work(Arc::clone(&writes))));
        }
        Ok((Self { queue }, started))
    }

    /// Runs a write in the next group.
    pub(super) async fn write<W: GroupedWrite>(&self, write: W) -> Result<W::Answer, StoreError>
    where
        W::Answer: Sync,
    {
        let (reply, answer) = oneshot::channel();
        let closed = || StoreError::Closed("stopped".into());
        let pending = PendingGroupWrite { write, result: None, reply };
        self.queue.send(Box::new(pending)).await.map_err(|_| closed())?;
        // A caller that is dropped here does not undo the write: it may still be committed.
        answer.await.map_err(|_| closed())?
    }
}

/// A number that no other writer of any server has.
fn random_id() -> Result<i64, StoreError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(crate::job::RandomError::from)?;
    Ok(i64::from_ne_bytes(bytes))
}

type SharedWriteQueue = Arc<tokio::sync::Mutex<mpsc::Receiver<Box<dyn WaitingWrite>>>>;

/// One task that writes.
struct WriterTask {
    connector: Arc<Connector>,
    tools: Arc<PostgresTools>,
    effects: CommitEffects,
    connected: Option<Connected>,
    /// Names this task in marks and locks.
    id: i64,
    /// Number of the present transaction.
    group: i64,
    /// The mark of the last one, which the next one removes.
    marked: Option<i64>,
}

/// A committed transaction.
struct Committed {
    transaction: u64,
    is_marked: bool,
    totals: TotalsChange,
    touched: Vec<JobId>,
}

/// The end of an attempt.
enum Attempt {
    Committed(Committed),
    /// Nothing of it is stored.
    Undone(StoreError),
    /// The connection was cut while the database committed.
    Unknown(Committed, StoreError),
}

impl WriterTask {
    async fn work(mut self, queue: SharedWriteQueue) {
        loop {
            let mut group = Vec::new();
            // One task takes from the queue at a time, and takes all that waits.
            let taken = queue.lock().await.recv_many(&mut group, MAX_GROUPED_WRITES).await;
            if taken == 0 {
                return;
            }
            self.commit(group).await;
        }
    }

    /// Runs a group until it is committed or can't be, and answers.
    async fn commit(&mut self, mut group: Vec<Box<dyn WaitingWrite>>) {
        match self.settle(&mut group).await {
            Ok(()) => group.into_iter().for_each(|write| write.answer(None)),
            // One write that the database refuses for good must not fail the others.
            Err(error) if group.len() > 1 && !error.is_transient() => {
                for write in group {
                    let mut alone = vec![write];
                    let failure = self.settle(&mut alone).await.err();
                    alone.into_iter().for_each(|write| write.answer(failure.as_ref().map(errors::copy)));
                }
            }
            Err(error) => {
                tracing::warn!(error = %sandyard_protocol::ErrorChain(&error), "a commit failed");
                group.into_iter().for_each(|write| write.answer(Some(errors::copy(&error))));
            }
        }
    }

    async fn settle(&mut self, group: &mut [Box<dyn WaitingWrite>]) -> Result<(), StoreError> {
        let deadline = Instant::now() + RETRY_TIMEOUT;
        loop {
            let error = match self.attempt(group).await {
                Attempt::Committed(committed) => {
                    self.take_effect(committed);
                    return Ok(());
                }
                Attempt::Undone(error) => error,
                Attempt::Unknown(committed, error) => match self.was_committed(deadline).await {
                    Some(true) => {
                        self.take_effect(committed);
                        return Ok(());
                    }
                    Some(false) => error,
                    None => return Err(error),
                },
            };
            // After any failure: a transaction may still be open on it.
            self.connected = None;
            let may_pass = error.is_transient() || errors::is_taken_key(&error);
            if !may_pass || Instant::now() + PAUSE >= deadline {
                return Err(error);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Totals and watchers change only after the commit, or readers would look for rows that are not there yet; and before the
    /// answers: a caller that reads after its answer finds totals and rows as it wrote them.
    fn take_effect(&self, committed: Committed) {
        let now = std::time::Instant::now();
        self.effects.totals.lock().add(committed.transaction, committed.totals, now);
        for job in &committed.touched {
            self.effects.watchers.wake(job);
        }
    }

    async fn attempt(&mut self, group: &mut [Box<dyn WaitingWrite>]) -> Attempt {
        self.group += 1;
        let connected = match self.connected.take().filter(|connected| !connected.is_closed()) {
            Some(connected) => connected,
            None => match self.connector.connect().await {
                Ok(connected) => connected,
                Err(error) => return Attempt::Undone(error),
            },
        };
        let attempt = self.transaction(&connected, group).await;
        if let Attempt::Committed(committed) = &attempt {
            self.marked = committed.is_marked.then_some(self.group).or(self.marked);
            self.connected = Some(connected);
        }
        attempt
    }

    async fn transaction(&self, connected: &Connected, group: &mut [Box<dyn WaitingWrite>]) -> Attempt {
        let queued = self.effects.totals.lock().queued();
        let mut writing = WriteGroup::new(connected, &self.tools, queued);
        let prepared = self.prepare(connected, &mut writing, group).await;
        let (transaction, steps) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => return Attempt::Undone(error),
        };
        let touched = std::mem::take(&mut writing.touched);
        let committed =
            Committed { transaction, is_marked: !steps.is_empty(), totals: writing.totals, touched };
        self.finish(connected, steps, committed).await
    }

    /// Begins the transaction and runs the writes; returns its id and the statements that write the group.
    async fn prepare(
        &self,
        connected: &Connected,
        writing: &mut WriteGroup<'_>,
        group: &mut [Box<dyn WaitingWrite>],
    ) -> Result<(u64, Vec<SqlStep>), StoreError> {
        let mut wanted = WantedRows::default();
        group.iter().for_each(|write| write.want(&mut wanted));
        let is_light = group.iter().all(|write| write.weight() == WriteWeight::Light);
        let held = [SqlValue::Integer(self.id)];
        // Polled in order, so they are sent in order, without waiting for each other's answers.
        let (begun, lightly, held, read) = tokio::join!(
            biased;
            answered(connected.client.batch_execute(BEGIN)),
            async {
                if is_light { answered(connected.client.batch_execute(LIGHTLY)).await } else { Ok(()) }
            },
            answered(connected.query(HOLD, &held)),
            writing.read(&wanted),
        );
        begun?;
        lightly?;
        let held = held?;
        read?;
        for write in group.iter_mut() {
            write.run(writing).await?;
        }
        let transaction: &str = held.first().map(|row| row.try_get(1)).transpose()?.unwrap_or_default();
        let transaction = transaction.parse().map_err(|_| StoreError::Damaged { what: "transaction id" })?;
        let mut steps = flush::steps(writing)?;
        let mark = |number: i64| vec![SqlValue::Integer(self.id), SqlValue::Integer(number)];
        // Writes without statements of their own may be run twice.
        if !steps.is_empty() {
            steps.push((MARK.into(), mark(self.group)));
            steps.extend(self.marked.map(|number| (UNMARK.into(), mark(number))));
        }
        let notes = flush::announcements(writing, transaction);
        steps.extend(notes.into_iter().map(|note| (ANNOUNCE.into(), vec![SqlValue::Text(note)])));
        Ok((transaction, steps))
    }

    /// Writes the group and commits, in one trip.
    async fn finish(&self, connected: &Connected, steps: Vec<SqlStep>, committed: Committed) -> Attempt {
        let mut statements = Vec::with_capacity(steps.len());
        for (sql, _) in &steps {
            match answered(connected.statement(sql)).await {
                Ok(statement) => statements.push(statement),
                Err(error) => return Attempt::Undone(error),
            }
        }
        let writes = steps.iter().zip(&statements);
        let writes = writes.map(|((_, values), statement)| answered(connected.run(statement, values)));
        let (written, ended) = tokio::join!(
            biased;
            futures_util::future::join_all(writes),
            answered(connected.client.batch_execute("COMMIT")),
        );
        // The database answers the COMMIT of a failed transaction with success: it has undone it.
        let failed = written.into_iter().find_map(Result::err);
        match (failed, ended) {
            (None, Ok(())) => Attempt::Committed(committed),
            (Some(error), Ok(())) if errors::is_refusal(&error) => Attempt::Undone(error),
            (Some(error), _) | (None, Err(error)) => Attempt::Unknown(committed, error),
        }
    }

    /// Tells whether the last transaction was committed; `None` if nobody answers.
    async fn was_committed(&mut self, deadline: Instant) -> Option<bool> {
        loop {
            if let Ok(found) = self.find_mark().await {
                return Some(found);
            }
            if Instant::now() + PAUSE >= deadline {
                return None;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn find_mark(&mut self) -> Result<bool, StoreError> {
        let connected = self.connector.connect().await?;
        answered(connected.client.batch_execute("BEGIN")).await?;
        // Waits for the end of the transaction, which the database may still work on although the connection is gone.
        answered(connected.query(HOLD, &[SqlValue::Integer(self.id)])).await?;
        let mark = [SqlValue::Integer(self.id), SqlValue::Integer(self.group)];
        let found = answered(connected.query(FIND_MARK, &mark)).await?;
        answered(connected.client.batch_execute("COMMIT")).await?;
        let is_committed = !found.is_empty();
        if is_committed {
            self.marked = Some(self.group);
        }
        self.connected = Some(connected);
        Ok(is_committed)
    }
}
