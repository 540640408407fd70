//! The writes of a store, each inside a group: read rows, ask a rule, keep the answer.

use async_trait::async_trait;
use sandyard_protocol::JournalEntry;
use sandyard_sandbox::driver::SandboxId;

use super::codecs::SqlValue;
use super::columns;
use super::group::{WantedRows, WriteGroup};
use super::writer::GroupedWrite;
use crate::audit::AuditEntry;
use crate::job::apply::SandboxWrite;
use crate::job::{Change, JobFence, JobId, JobRow, NotedEntries};
use crate::store::rules::{self, AppendDecision, CancelDecision, InsertDecision, RepeatedKey, SayDecision};
use crate::store::values::damaged;
use crate::store::write_weight::WriteWeight;
use crate::store::{Appended, InsertJob, Inserted, JobClaim, Said, StoreError};

/// Adds the sandboxes that changes name, so that their rows are read with those of the jobs.
fn want_sandboxes(wanted: &mut WantedRows, changes: &[Change]) {
    for change in changes {
        match change {
            Change::NewSandbox { sandbox, .. } => wanted.sandboxes.insert(sandbox.id.clone()),
            Change::SandboxStopped(sandbox) => wanted.sandboxes.insert(sandbox.clone()),
            _ => continue,
        };
    }
}

pub(super) struct Insert {
    pub(super) job: InsertJob,
    pub(super) claim: Option<JobClaim>,
}

#[async_trait]
impl GroupedWrite for Insert {
    type Answer = Inserted;

    fn want(&self, wanted: &mut WantedRows) {
        wanted.numbers += 1;
        wanted.keys.extend(self.job.key.as_ref().map(|key| key.key_sha256));
        if let Some(claim) = &self.claim {
            want_sandboxes(wanted, &claim.changes);
        }
    }

    async fn run(&self, group: &mut WriteGroup<'_>) -> Result<Inserted, StoreError> {
        // A key that another transaction stores meanwhile makes this one fail and run again, and then the key is found.
        let key = self.job.key.as_ref();
        if let Some((key, found)) = key.and_then(|key| Some((key, group.found_key(key)?))) {
            return match rules::answer_repeat(found, key) {
                RepeatedKey::Taken => Ok(Inserted::KeyTaken),
                RepeatedKey::Same(number) => {
                    let row = group.job_by_number(number).await?;
                    damaged(row, "idempotency key").map(|row| Inserted::Repeated(Box::new(row)))
                }
            };
        }
        match group.rules().insert(self.job.clone(), group.queued(), self.claim.clone())? {
            InsertDecision::Answer(answer) => Ok(answer),
            InsertDecision::Write(write) => {
                group.insert_new(*write).await.map(|row| Inserted::New(Box::new(row)))
            }
        }
    }
}

pub(super) struct ClaimQueued {
    pub(super) id: JobId,
    pub(super) claim: JobClaim,
}

#[async_trait]
impl GroupedWrite for ClaimQueued {
    type Answer = Option<JobRow>;

    fn want(&self, wanted: &mut WantedRows) {
        // Of several servers that see the same queue, the one that comes second goes on to the next job instead of waiting.
        wanted.free_jobs.insert(self.id.clone());
        want_sandboxes(wanted, &self.claim.changes);
    }

    async fn run(&self, group: &mut WriteGroup<'_>) -> Result<Option<JobRow>, StoreError> {
        let found = group.leased(&self.id).await?;
        match group.rules().claim_queued(found, self.claim.clone())? {
            Some(write) => group.save(write).await.map(Some),
            None => Ok(None),
        }
    }
}

/// Jobs without a living owner. One that its last server has given back, or lost by its death, is for other servers only once its lease
/// would have run out: the sandbox is where that server was, and it comes back soon.
static ORPHANS: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
    format!(
        "{}s.open AND (s.state <> 'queued' OR s.delete_requested) \
         AND ((s.lease_owner IS NULL AND s.lease_place = $2) OR GREATEST(s.lease_until, COALESCE(o.lease_until, 0)) <= $1) \
         ORDER BY j.number FOR NO KEY UPDATE OF s, p SKIP LOCKED",
        *columns::SELECT
    )
});

pub(super) struct ClaimOrphans {
    pub(super) owner: String,
    pub(super) ttl_ms: u64,
}

#[async_trait]
impl GroupedWrite for ClaimOrphans {
    type Answer = Vec<JobRow>;

    fn want(&self, _: &mut WantedRows) {}

    async fn run(&self, group: &mut WriteGroup<'_>) -> Result<Vec<JobRow>, StoreError> {
        // The rule decides. The condition only keeps most open jobs from being read.
        let values = [SqlValue::Integer(group.lease_ms()), SqlValue::text(group.place())];
        let candidates = group.free_jobs(&ORPHANS, &values).await?;
        let mut taken = Vec::new();
        for found in candidates {
            if let Some(write) = group.rules().claim_orphan(found, &self.owner, self.ttl_ms)? {
                taken.push(group.save(write).await?);
            }
        }
        Ok(taken)
    }
}

/// Begins the lease of an owner, or prolongs it.
const PUT_OWNER: &str = "INSERT INTO owners (owner, place, lease_until) VALUES ($1, $2, $3) \
    ON CONFLICT (owner) DO UPDATE SET lease_until = $3";
/// Takes jobs from an owner whose leases have run out. A lease is never revived.
const LOSE: &str = "UPDATE job_states s SET lease_owner = NULL WHERE s.open AND s.lease_owner = $1 AND s.lease_until <= $2 \
    AND COALESCE((SELECT o.lease_until FROM owners o WHERE o.owner = $1), 0) <= $2";
const HELD: &str =
    "SELECT j.id, s.epoch FROM job_states s JOIN jobs j USING (number) WHERE s.open AND s.lease_owner = $1";

pub(super) struct Renew {
    pub(super) owner: String,
    pub(super) ttl_ms: u64,
}

#[async_trait]
impl GroupedWrite for Renew {
    type Answer = Vec<JobFence>;

    fn want(&self, _: &mut WantedRows) {}

    /// Prolongs one row for all jobs of the owner: a job's own row is not touched.
    async fn run(&self, group: &mut WriteGroup<'_>) -> Result<Vec<JobFence>, StoreError> {
        let (owner, now_ms) = (SqlValue::text(&self.owner), group.lease_ms());
        let ttl_ms = i64::try_from(self.ttl_ms).unwrap_or(i64::MAX);
        group.query(LOSE, &[owner.clone(), SqlValue::Integer(now_ms)]).await?;
        let until = SqlValue::Integer(now_ms.saturating_add(ttl_ms));
        group.query(PUT_OWNER, &[owner.clone(), SqlValue::text(group.place()), until]).await?;
        let mut kept = Vec::new();
        for row in group.query(HELD, &[owner]).await? {
            let mut columns = super::codecs::PostgresColumns::new(&row);
            let job = super::codecs::word::take(&mut columns, "job id")?;
            kept.push(JobFence { job, epoch: columns.take("epoch")? });
        }
        Ok(kept)
    }
}

/// Gives back what an owner holds. Until the lease would have run out, jobs are for a server of the same place.
const RELEASE: [&str; 3] = [
    "UPDATE job_states s SET lease_owner = NULL, \
     lease_until = GREATEST(s.lease_until, COALESCE((SELECT o.lease_until FROM owners o WHERE o.owner = $1), 0)) \
     WHERE s.open AND s.lease_owner = $1",
    "UPDATE sandboxes SET owner = NULL WHERE owner = $1",
    "DELETE FROM owners WHERE owner = $1",
];

pub(super) struct ReleaseAll {
    pub(super) owner: String,
}

#[async_trait]
impl GroupedWrite for ReleaseAll {
    type Answer = ();

    fn want(&self, _: &mut WantedRows) {}

    async fn run(&self, group: &mut WriteGroup<'_>) -> Result<(), StoreError> {
        for sql in RELEASE {
            group.query(sql, &[SqlValue::text(&self.owner)]).await?;
        }
        Ok(())
    }
}

pub(super) struct Requeue {
    pub(super) fence: JobFence,
    pub(super) reason: String,
}

#[async_trait]
impl GroupedWrite for Requeue {
    type Answer = ();

    fn want(&self, wanted: &mut WantedRows) {
        wanted.jobs.insert(self.fence.job.clone());
    }

    async fn run(&self, group: &mut WriteGroup<'_>) -> Result<(), StoreError> {
        let found = group.job(&self.fence.job).await?;
        let write = group.rules().requeue(found, &self.fence, self.reason.clone())?;
        group.save(write).await.map(drop)
    }
}

pub(super) struct Commit {
    pub(super) fence: JobFence,
    pub(super) changes: Vec<Change>,
}

#[async_trait]
impl GroupedWrite for Commit {
    type Answer = JobRow;

    fn want(&self, wanted: &mut WantedRows) {
        wanted.jobs.insert(self.fence.job.clone());
        want_sandboxes(wanted, &self.changes);
    }

    async fn run(&self, group: &mut WriteGroup<'_>) -> Result<JobRow, StoreError> {
        let found = group.job(&self.fence.job).await?;
        let write = group.rules().commit(found, &self.fence, self.changes.clone())?;
        group.save(write).await
    }
}

pub(super) struct Append {
    pub(super) fence: JobFence,
    pub(super) number: u64,
    pub(super) entry: Box<JournalEntry>,
}

#[async_trait]
impl GroupedWrite for Append {
    type Answer = Appended;

    fn want(&self, wanted: &mut WantedRows) {
        wanted.jobs.insert(self.fence.job.clone());
    }

    async fn run(&self, group: &mut WriteGroup<'_>) -> Result<Appended, StoreError> {
        let row = rules::owned(group.job(&self.fence.job).await?, &self.fence)?;
        let found = group.own_entry(row.number, self.number).await?;
        match group.rules().append(row, found.as_ref(), self.number, self.entry.clone())? {
            AppendDecision::Answer(answer) => Ok(answer),
            AppendDecision::Write { number, write } => {
                group.save(*write).await?;
                Ok(Appended::Kept { number })
            }
        }
    }
}

pub(super) struct Say {
    pub(super) id: JobId,
    pub(super) said: Box<JournalEntry>,
    pub(super) entry: AuditEntry,
}

#[async_trait]
impl GroupedWrite for Say {
    type Answer = Said;

    fn want(&self, wanted: &mut WantedRows) {
        wanted.jobs.insert(self.id.clone());
    }

    async fn run(&self, group: &mut WriteGroup<'_>) -> Result<Said, StoreError> {
        let found = group.job(&self.id).await?;
        match group.rules().say(found, self.said.clone(), self.entry.clone())? {
            SayDecision::Answer(answer) => Ok(answer),
            SayDecision::Write(write) => group.save(*write).await.map(|row| Said::Kept(Box::new(row))),
        }
    }
}

pub(super) struct Note {
    pub(super) id: JobId,
    pub(super) epoch: Option<u64>,
    pub(super) entries: Vec<AuditEntry>,
}

#[async_trait]
impl GroupedWrite for Note {
    type Answer = Option<NotedEntries>;

    fn weight(&self) -> WriteWeight {
        WriteWeight::Light
    }

    fn want(&self, wanted: &mut WantedRows) {
        wanted.jobs.insert(self.id.clone());
    }

    async fn run(&self, group: &mut WriteGroup<'_>) -> Result<Option<NotedEntries>, StoreError> {
        let found = group.job(&self.id).await?;
        let Some(write) = group.rules().note(found, &self.id, self.epoch, &self.entries)? else {
            return Ok(None);
        };
        group.save_note(write.row, write.kept_bytes_before, write.lines);
        Ok(Some(write.notes))
    }
}

pub(super) struct NoteYard {
    pub(super) entry: AuditEntry,
}

#[async_trait]
impl GroupedWrite for NoteYard {
    type Answer = ();

    fn want(&self, _: &mut WantedRows) {}

    async fn run(&self, group: &mut WriteGroup<'_>) -> Result<(), StoreError> {
        group.note_yard(&self.entry).await
    }
}

pub(super) struct RequestCancel {
    pub(super) id: JobId,
    pub(super) entry: AuditEntry,
}

#[async_trait]
impl GroupedWrite for RequestCancel {
    type Answer = Option<JobRow>;

    fn want(&self, wanted: &mut WantedRows) {
        wanted.jobs.insert(self.id.clone());
    }

    async fn run(&self, group: &mut WriteGroup<'_>) -> Result<Option<JobRow>, StoreError> {
        let found = group.job(&self.id).await?;
        match group.rules().request_cancel(found, self.entry.clone())? {
            CancelDecision::Unknown => Ok(None),
            CancelDecision::Answer(row) => Ok(Some(*row)),
            CancelDecision::Write(write) => group.save(*write).await.map(Some),
        }
    }
}

pub(super) struct RequestDelete {
    pub(super) id: JobId,
    pub(super) entry: AuditEntry,
}

#[async_trait]
impl GroupedWrite for RequestDelete {
    type Answer = Option<JobRow>;

    fn want(&self, wanted: &mut WantedRows) {
        wanted.jobs.insert(self.id.clone());
    }

    async fn run(&self, group: &mut WriteGroup<'_>) -> Result<Option<JobRow>, StoreError> {
        let found = group.job(&self.id).await?;
        match group.rules().request_delete(found, self.entry.clone())? {
            Some(write) => group.save(write).await.map(Some),
            None => Ok(None),
        }
    }
}

pub(super) struct Remove {
    pub(super) fence: JobFence,
}

#[async_trait]
impl GroupedWrite for Remove {
    type Answer = ();

    fn want(&self, wanted: &mut WantedRows) {
        wanted.jobs.insert(self.fence.job.clone());
    }

    async fn run(&self, group: &mut WriteGroup<'_>) -> Result<(), StoreError> {
        let found = group.job(&self.fence.job).await?;
        let removed = group.rules().remove(found, &self.fence)?;
        group.remove(&removed.row, removed.leaves.map(SandboxWrite::Leave)).await
    }
}

pub(super) struct RemoveSandbox {
    pub(super) sandbox: SandboxId,
}

#[async_trait]
impl GroupedWrite for RemoveSandbox {
    type Answer = ();

    fn want(&self, wanted: &mut WantedRows) {
        wanted.sandboxes.insert(self.sandbox.clone());
    }

    async fn run(&self, group: &mut WriteGroup<'_>) -> Result<(), StoreError> {
        group.remove_sandbox(SandboxWrite::Remove(self.sandbox.clone())).await
    }
}
