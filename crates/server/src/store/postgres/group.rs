//! Writes that share a transaction: rows are read once and locked, the rules decide on them one write after the other, and everything is
//! written at the end, in one go.
//!
//! A write that a rule refuses leaves nothing behind, because it changes nothing before the rule has agreed. A write that comes after
//! another one of its group finds the rows as that one left them.

use std::collections::{BTreeMap, HashMap, HashSet};

use sandyard_sandbox::driver::SandboxId;
use tokio_postgres::Row;

use super::added_texts::AddedText;
use super::codecs::SqlValue;
use super::columns;
use super::connection::{Connected, answered};
use super::sandboxes;
use super::totals::TotalsChange;
use super::write_tools::PostgresTools;
use crate::audit::AuditLine;
use crate::job::apply::Applied;
use crate::job::{AuditRow, JobId, JobRow, SandboxRow};
use crate::store::rules::{FoundKey, LeasedJob, StoreRules, StoredEntry, WriteTime};
use crate::store::sealing::StoreSealer;
use crate::store::values::damaged;
use crate::store::{StoreError, StoredKey};

const FIND_KEYS: &str =
    "SELECT key_sha256, body_sha256, job FROM idempotency_keys WHERE key_sha256 = ANY($1)";
const NEW_NUMBERS: &str = "SELECT nextval('job_numbers') FROM generate_series(1, $1::bigint)";
/// Of the database, because servers on several hosts compare it. Written as a number of milliseconds.
const LEASE_CLOCK: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
const OWN_ENTRY: &str = "SELECT number, entry FROM journal WHERE job = $1 AND number >= $2 AND kind <> 'said' \
                         ORDER BY number LIMIT 1";
/// The lock keeps two transactions from continuing the same end. The number is this program's, for nothing else.
const LOCK_YARD_AUDIT: &str = "SELECT pg_advisory_xact_lock(7382846128012245862)";
/// From the end of the index, where no rows of the past are.
pub(super) const YARD_AUDIT: &str = "SELECT place, audit FROM yard_audit_end ORDER BY place DESC LIMIT 1";

/// The rows that a write will ask for, as far as it knows them before. Those of all writes of a group are read at once.
#[derive(Debug, Default)]
pub(super) struct WantedRows {
    pub(super) jobs: HashSet<JobId>,
    /// Jobs that are passed over if another transaction has them.
    pub(super) free_jobs: HashSet<JobId>,
    pub(super) sandboxes: HashSet<SandboxId>,
    pub(super) keys: HashSet<[u8; 32]>,
    /// Jobs to be inserted.
    pub(super) numbers: usize,
}

/// A row as the database has it, and as the group leaves it.
#[derive(Debug, Clone)]
pub(super) struct GroupRow<T> {
    pub(super) stored: Option<T>,
    pub(super) present: Option<T>,
}

impl<T: Clone> GroupRow<T> {
    fn unchanged(stored: Option<T>) -> Self {
        Self { present: stored.clone(), stored }
    }
}

/// Everything that a group adds beside the rows of jobs and sandboxes.
#[derive(Debug, Default)]
pub(super) struct GroupAdditions {
    /// Each with the number of its job.
    pub(super) applied: Vec<(i64, Applied)>,
    /// Records beside those in `applied`, each with the number of its job.
    pub(super) audit: Vec<(i64, AuditLine)>,
    pub(super) texts: Vec<AddedText>,
    /// Requests of new jobs, sealed.
    pub(super) requests: HashMap<i64, Vec<u8>>,
    /// Files of requests: job, place, path, sealed bytes.
    pub(super) files: Vec<(i64, usize, String, Vec<u8>)>,
    pub(super) keys: Vec<([u8; 32], FoundKey)>,
    pub(super) yard_lines: Vec<AuditLine>,
    /// Jobs whose request's files go.
    pub(super) dropped_files: Vec<i64>,
    /// Jobs of which every row goes.
    pub(super) removed: Vec<i64>,
}

/// One transaction while writes run in it.
pub(super) struct WriteGroup<'a> {
    pub(super) connected: &'a Connected,
    pub(super) tools: &'a PostgresTools,
    now: WriteTime,
    /// Length of the queue when the group began.
    queued: i64,
    pub(super) jobs: BTreeMap<JobId, GroupRow<LeasedJob>>,
    pub(super) sandboxes: HashMap<SandboxId, GroupRow<SandboxRow>>,
    pub(super) keys: HashMap<[u8; 32], Option<FoundKey>>,
    numbers: Vec<i64>,
    /// The end of the yard's audit, with its place in the table.
    pub(super) yard: Option<GroupRow<(i64, AuditRow)>>,
    pub(super) additions: GroupAdditions,
    pub(super) totals: TotalsChange,
    /// Jobs to wake after the commit.
    pub(super) touched: Vec<JobId>,
}

impl<'a> WriteGroup<'a> {
    /// A group in the open transaction of a connection.
    pub(super) fn new(connected: &'a Connected, tools: &'a PostgresTools, queued: i64) -> Self {
        Self {
            connected,
            tools,
            now: WriteTime { wall_ms: tools.clock.unix_ms(), lease_ms: 0 },
            queued,
            jobs: BTreeMap::new(),
            sandboxes: HashMap::new(),
            keys: HashMap::new(),
            numbers: Vec::new(),
            yard: None,
            additions: GroupAdditions::default(),
            totals: TotalsChange::default(),
            touched: Vec::new(),
        }
    }

    /// The rules at the present time. Leases are measured by the database's clock.
    pub(super) fn rules(&self) -> StoreRules<'a> {
        StoreRules { now: self.now, signer: &self.tools.signer }
    }

    pub(super) fn lease_ms(&self) -> i64 {
        self.now.lease_ms
    }

    /// The place of this server: its data folder.
    pub(super) fn place(&self) -> &'a str {
        &self.tools.place
    }

    pub(super) fn sealer(&self) -> &'a StoreSealer {
        &self.tools.sealer
    }

    /// Number of jobs that wait.
    pub(super) fn queued(&self) -> u64 {
        u64::try_from(self.queued + self.totals.queued()).unwrap_or(0)
    }

    /// Reads the wanted rows and locks those of jobs, in one trip.
    pub(super) async fn read(&mut self, wanted: &WantedRows) -> Result<(), StoreError> {
        let plain: Vec<&JobId> = wanted.jobs.iter().collect();
        // A job that another write of the group needs too is waited for: passed over, it would look as if it were gone.
        let free: Vec<&JobId> = wanted.free_jobs.difference(&wanted.jobs).collect();
        let all: Vec<&JobId> = plain.iter().chain(&free).copied().collect();
        let sandboxes: Vec<String> = wanted.sandboxes.iter().map(|id| id.as_str().to_owned()).collect();
        let has_sandboxes = !all.is_empty() || !sandboxes.is_empty();
        let keys: Vec<Option<Vec<u8>>> = wanted.keys.iter().map(|key| Some(key.to_vec())).collect();
        let count = SqlValue::Integer(i64::try_from(wanted.numbers).unwrap_or(0));
        let (locked, free_locked, found_sandboxes, found_keys, numbers, clock) = tokio::join!(
            self.query_if(!plain.is_empty(), &columns::LOCK, vec![names(&plain)]),
            self.query_if(!free.is_empty(), &columns::LOCK_FREE, vec![names(&free)]),
            self.query_if(has_sandboxes, &sandboxes::WANTED, vec![SqlValue::Texts(sandboxes), names(&all)]),
            self.query_if(!keys.is_empty(), FIND_KEYS, vec![SqlValue::MaybeBytes(keys)]),
            self.query_if(wanted.numbers > 0, NEW_NUMBERS, vec![count]),
            // Last: the locks may have been waited for.
            self.query_if(true, LEASE_CLOCK, Vec::new()),
        );
        self.keep_jobs(&plain, &locked?)?;
        self.keep_jobs(&free, &free_locked?)?;
        self.keep_sandboxes(&found_sandboxes?)?;
        self.keep_keys(wanted, &found_keys?)?;
        for row in numbers? {
            self.numbers.push(row.try_get(0)?);
        }
        self.now.lease_ms = clock?.first().map(|row| row.try_get(0)).transpose()?.unwrap_or(0);
        Ok(())
    }

    async fn query_if(
        &self,
        is_wanted: bool,
        sql: &str,
        values: Vec<SqlValue>,
    ) -> Result<Vec<Row>, StoreError> {
        if is_wanted { self.query(sql, &values).await } else { Ok(Vec::new()) }
    }

    /// Runs a statement in the transaction.
    pub(super) async fn query(&self, sql: &str, values: &[SqlValue]) -> Result<Vec<Row>, StoreError> {
        answered(self.connected.query(sql, values)).await
    }

    fn keep_jobs(&mut self, wanted: &[&JobId], found: &[Row]) -> Result<(), StoreError> {
        for row in found {
            let job = columns::read_leased(row)?;
            let id = job.row.id.clone();
            self.jobs.entry(id).or_insert_with(|| GroupRow::unchanged(Some(job)));
        }
        for id in wanted {
            self.jobs.entry(JobId::clone(id)).or_insert_with(|| GroupRow::unchanged(None));
        }
        Ok(())
    }

    fn keep_sandboxes(&mut self, found: &[Row]) -> Result<(), StoreError> {
        for row in found {
            let sandbox = sandboxes::read(row)?;
            let id = sandbox.id.clone();
            self.sandboxes.entry(id).or_insert_with(|| GroupRow::unchanged(Some(sandbox)));
        }
        Ok(())
    }

    fn keep_keys(&mut self, wanted: &WantedRows, found: &[Row]) -> Result<(), StoreError> {
        self.keys.extend(wanted.keys.iter().map(|key| (*key, None)));
        for row in found {
            let (key, body): (Vec<u8>, Vec<u8>) = (row.try_get(0)?, row.try_get(1)?);
            let key = damaged(key.try_into().ok(), "idempotency key")?;
            let body_sha256 = damaged(body.try_into().ok(), "idempotency key")?;
            self.keys.insert(key, Some(FoundKey { body_sha256, job: row.try_get(2)? }));
        }
        Ok(())
    }

    /// A job with its lease, which no other transaction can change before the end of this one.
    pub(super) async fn leased(&mut self, id: &JobId) -> Result<Option<LeasedJob>, StoreError> {
        if !self.jobs.contains_key(id) {
            let wanted = [id];
            let found = self.query(&columns::LOCK, &[names(&wanted)]).await?;
            self.keep_jobs(&wanted, &found)?;
        }
        Ok(self.jobs.get(id).and_then(|job| job.present.clone()))
    }

    /// A job, which no other transaction can change before the end of this one.
    pub(super) async fn job(&mut self, id: &JobId) -> Result<Option<JobRow>, StoreError> {
        Ok(self.leased(id).await?.map(|job| job.row))
    }

    /// Takes jobs that match a condition and that no other transaction has. Those that this group has read before are returned as it
    /// leaves them.
    pub(super) async fn free_jobs(
        &mut self,
        sql: &str,
        values: &[SqlValue],
    ) -> Result<Vec<LeasedJob>, StoreError> {
        let found = self.query(sql, values).await?;
        self.keep_jobs(&[], &found)?;
        let mut jobs = Vec::new();
        for row in &found {
            let id = columns::read(row)?.id;
            jobs.extend(self.jobs.get(&id).and_then(|job| job.present.clone()));
        }
        Ok(jobs)
    }

    /// The job of that number, which an idempotency key names. It may be changed meanwhile.
    pub(super) async fn job_by_number(&self, number: i64) -> Result<Option<JobRow>, StoreError> {
        let known = self.jobs.values().filter_map(|job| job.present.as_ref());
        if let Some(known) = known.map(|job| &job.row).find(|row| row.number == number) {
            return Ok(Some(known.clone()));
        }
        let found = self.query(&columns::BY_NUMBER, &[SqlValue::Integer(number)]).await?;
        found.first().map(columns::read).transpose()
    }

    /// The row of a sandbox, as the group leaves it.
    pub(super) async fn sandbox(&mut self, id: &SandboxId) -> Result<Option<SandboxRow>, StoreError> {
        if !self.sandboxes.contains_key(id) {
            let values = [SqlValue::Texts(vec![id.as_str().to_owned()]), SqlValue::Texts(Vec::new())];
            let found = self.query(&sandboxes::WANTED, &values).await?;
            self.keep_sandboxes(&found)?;
            self.sandboxes.entry(id.clone()).or_insert_with(|| GroupRow::unchanged(None));
        }
        Ok(self.sandboxes.get(id).and_then(|sandbox| sandbox.present.clone()))
    }

    /// The job that a key has made before, or makes in this group.
    pub(super) fn found_key(&self, key: &StoredKey) -> Option<FoundKey> {
        self.keys.get(&key.key_sha256).copied().flatten()
    }

    /// A number for a new job.
    pub(super) async fn new_number(&mut self) -> Result<i64, StoreError> {
        if self.numbers.is_empty() {
            for row in self.query(NEW_NUMBERS, &[SqlValue::Integer(1)]).await? {
                self.numbers.push(row.try_get(0)?);
            }
        }
        // In order: of two writes of a group the earlier one gets the lower number.
        if self.numbers.is_empty() {
            return Err(StoreError::Damaged { what: "sequence of jobs" });
        }
        Ok(self.numbers.remove(0))
    }

    /// The first entry of a journal at or behind a number that is not a person's words.
    pub(super) async fn own_entry(&self, job: i64, number: u64) -> Result<Option<StoredEntry>, StoreError> {
        let found = self.query(OWN_ENTRY, &[SqlValue::Integer(job), SqlValue::count(number)]).await?;
        let stored = found.first().map(|row| {
            let number: i64 = row.try_get(0)?;
            Ok::<_, StoreError>(StoredEntry { number: number.cast_unsigned(), text: row.try_get(1)? })
        });
        let of_job = self.additions.applied.iter().filter(|(of, _)| *of == job);
        let mut added = of_job.flat_map(|(_, applied)| &applied.journal);
        let added = added.find(|entry| entry.number >= number && entry.kind != "said");
        let added = added.map(|entry| StoredEntry { number: entry.number, text: entry.text.clone() });
        // What the database has comes before what the group adds.
        Ok(stored.transpose()?.or(added))
    }

    /// The end of the yard's audit, which no other transaction can continue before the end of this one.
    pub(super) async fn yard_audit(&mut self) -> Result<Option<(i64, AuditRow)>, StoreError> {
        if self.yard.is_none() {
            // One after the other: the second statement must see what the holder of the lock has committed.
            self.query(LOCK_YARD_AUDIT, &[]).await?;
            let found = self.query(YARD_AUDIT, &[]).await?;
            let end = found.first().map(read_yard_audit).transpose()?;
            self.yard = Some(GroupRow::unchanged(end));
        }
        Ok(self.yard.as_ref().and_then(|end| end.present.clone()))
    }
}

/// Decodes a row of [`YARD_AUDIT`].
pub(super) fn read_yard_audit(row: &Row) -> Result<(i64, AuditRow), StoreError> {
    let text: &str = row.try_get(1)?;
    Ok((row.try_get(0)?, damaged(serde_json::from_str(text).ok(), "yard audit")?))
}

fn names(jobs: &[&JobId]) -> SqlValue {
    SqlValue::Texts(jobs.iter().map(|id| id.as_str().to_owned()).collect())
}
