//! A store in memory, for tests: the second implementation of [`Store`], made of the rules and a few maps. It shows that the
//! rules say everything that a store has to decide.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};
use sandyard_api::JobIdPrefix;
use sandyard_memory::ContentDigest;
use sandyard_protocol::{JournalEntry, JournalRow, OutputStream};
use sandyard_sandbox::driver::SandboxId;

use super::rules::{
    self, AppendDecision, CancelDecision, FoundKey, InsertDecision, JobLease, JobWrite, LeasedJob,
    NewJobWrite, RepeatedKey, SayDecision, StoreRules, StoredEntry, WriteTime,
};
use super::watch::Watchers;
use super::{
    Appended, AuditOf, AuditSigner, EndedJob, InsertJob, Inserted, JobClaim, JobWatch, Retained, Said,
    StateCounts, Store, StoreError, StoredRequest,
};
use crate::audit::{AuditEntry, AuditLine};
use crate::clock::Clock;
use crate::job::apply::{Applied, NewEntry, SandboxWrite};
use crate::job::{
    AuditRow, Change, ChunkRow, EventRow, JobFence, JobFilter, JobId, JobRow, JobState, NewText,
    NotedEntries, SandboxRow, StoredText, TextRow,
};
use crate::store::memory_texts::MemoryTexts;

/// The state that outlives a [`MemoryStore`], as a disk outlives a server.
#[derive(Debug, Default)]
pub(crate) struct MemoryTables {
    jobs: BTreeMap<i64, LeasedJob>,
    numbers: i64,
    requests: HashMap<i64, StoredRequest>,
    keys: HashMap<[u8; 32], FoundKey>,
    events: BTreeMap<(i64, u64), EventRow>,
    chunks: BTreeMap<(i64, u8, u64), ChunkRow>,
    journal: BTreeMap<(i64, u64), NewEntry>,
    texts: MemoryTexts,
    audit: BTreeMap<(i64, u64), AuditLine>,
    yard_audit: Option<AuditRow>,
    yard_lines: Vec<AuditLine>,
    pub(crate) sandboxes: BTreeMap<SandboxId, SandboxRow>,
}

/// A store in memory, for tests. Its tables outlive it, so that a test can open them again as after a crash.
#[derive(Debug)]
pub(crate) struct MemoryStore {
    tables: Arc<Mutex<MemoryTables>>,
    watchers: Watchers,
    signer: AuditSigner,
}

impl MemoryStore {
    /// Opens tables. No earlier owner is alive.
    pub(crate) fn open(tables: Arc<Mutex<MemoryTables>>, signer: AuditSigner) -> Self {
        let store = Self { tables, watchers: Watchers::default(), signer };
        let mut tables = store.tables();
        tables.jobs.values_mut().for_each(|job| job.lease = JobLease::free());
        tables.sandboxes.values_mut().for_each(|sandbox| sandbox.owner = None);
        drop(tables);
        store
    }

    fn tables(&self) -> MutexGuard<'_, MemoryTables> {
        self.tables.lock()
    }

    fn rules(&self) -> StoreRules<'_> {
        StoreRules { now: WriteTime::of(&Clock::default()), signer: &self.signer }
    }

    fn save(&self, tables: &mut MemoryTables, write: JobWrite) -> Result<JobRow, StoreError> {
        tables.add(write.row.number, &write.applied)?;
        if let Some(entry) = &write.for_yard {
            self.note_in_yard(tables, entry);
        }
        let drops_request_files = write.drops_request_files();
        let number = write.row.number;
        if let Some(request) = tables.requests.get_mut(&number).filter(|_| drops_request_files) {
            request.files.clear();
        }
        if let Some(job) = tables.jobs.get_mut(&number) {
            job.row = write.row.clone();
            job.lease = write.lease.unwrap_or_else(|| job.lease.clone());
        }
        self.watchers.wake(&write.row.id);
        Ok(write.row)
    }

    fn note_in_yard(&self, tables: &mut MemoryTables, entry: &AuditEntry) {
        let note = self.rules().note_yard(tables.yard_audit.take(), entry);
        tables.yard_audit = Some(note.audit);
        tables.yard_lines.extend(note.lines);
    }

    fn insert_new(&self, tables: &mut MemoryTables, write: NewJobWrite) -> Result<JobRow, StoreError> {
        let NewJobWrite { mut row, lease, request, key, applied } = write;
        tables.numbers += 1;
        row.number = tables.numbers;
        tables.add(row.number, &applied)?;
        tables.requests.insert(row.number, request);
        if let Some(key) = key {
            let found = FoundKey { body_sha256: key.body_sha256, job: row.number };
            tables.keys.insert(key.key_sha256, found);
        }
        tables.jobs.insert(row.number, LeasedJob { row: row.clone(), lease });
        self.watchers.wake(&row.id);
        Ok(row)
    }
}

impl MemoryTables {
    fn leased(&self, id: &JobId) -> Option<LeasedJob> {
        self.jobs.values().find(|job| job.row.id == *id).cloned()
    }

    fn row(&self, id: &JobId) -> Option<JobRow> {
        self.leased(id).map(|job| job.row)
    }

    fn rows(&self) -> impl DoubleEndedIterator<Item = &JobRow> {
        self.jobs.values().map(|job| &job.row)
    }

    fn queued(&self) -> u64 {
        self.rows().filter(|row| row.state == JobState::Queued).count() as u64
    }

    fn add(&mut self, job: i64, applied: &Applied) -> Result<(), StoreError> {
        // On a copy: a refused write must leave nothing behind.
        let mut sandboxes = self.sandboxes.clone();
        applied.sandboxes.iter().try_for_each(|write| write_sandbox(&mut sandboxes, write))?;
        self.sandboxes = sandboxes;
        self.events.extend(applied.events.iter().map(|event| ((job, event.id), event.clone())));
        for chunk in &applied.chunks {
            self.chunks.insert((job, place(chunk.stream), chunk.number), chunk.clone());
        }
        for (stream, first, end) in &applied.dropped {
            self.chunks.retain(|(of, in_stream, number), _| {
                *of != job || *in_stream != place(*stream) || !(*first..*end).contains(number)
            });
        }
        self.journal.extend(applied.journal.iter().map(|entry| ((job, entry.number), entry.clone())));
        self.audit.extend(applied.audit.iter().map(|line| ((job, line.number), line.clone())));
        Ok(())
    }
}

fn write_sandbox(
    sandboxes: &mut BTreeMap<SandboxId, SandboxRow>,
    write: &SandboxWrite,
) -> Result<(), StoreError> {
    let id = write.sandbox();
    match rules::write_sandbox(sandboxes.get(id).cloned(), write)? {
        Some(row) => sandboxes.insert(id.clone(), row),
        None => sandboxes.remove(id),
    };
    Ok(())
}

fn place(stream: OutputStream) -> u8 {
    match stream {
        OutputStream::Stdout => 1,
        OutputStream::Stderr => 2,
    }
}

fn entry_of(entry: &NewEntry) -> Result<JournalRow, StoreError> {
    let damaged = |_| StoreError::Damaged { what: "journal entry" };
    Ok(JournalRow {
        number: entry.number,
        at_ms: entry.at_ms,
        incarnation: entry.incarnation,
        entry: serde_json::from_str(&entry.text).map_err(damaged)?,
    })
}

#[async_trait]
impl Store for MemoryStore {
    async fn job(&self, id: &JobId) -> Result<Option<JobRow>, StoreError> {
        Ok(self.tables().row(id).filter(|row| !row.delete_requested))
    }

    async fn any_job(&self, id: &JobId) -> Result<Option<JobRow>, StoreError> {
        Ok(self.tables().row(id))
    }

    async fn is_current(&self, id: &JobId, revision: u64) -> Result<bool, StoreError> {
        Ok(self.tables().row(id).is_some_and(|row| row.revision == revision && !row.delete_requested))
    }

    async fn request(&self, id: &JobId) -> Result<Option<StoredRequest>, StoreError> {
        let tables = self.tables();
        Ok(tables.row(id).and_then(|row| tables.requests.get(&row.number).cloned()))
    }

    async fn list(
        &self,
        filter: &JobFilter,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Vec<JobRow>, StoreError> {
        let tables = self.tables();
        let matches = |row: &&JobRow| {
            !row.delete_requested
                && row.number < before.unwrap_or(i64::MAX)
                && filter.kind.is_none_or(|kind| kind == row.kind)
                && (filter.states.is_empty() || filter.states.contains(&row.state))
        };
        Ok(tables.rows().rev().filter(matches).take(limit).cloned().collect())
    }

    async fn events(&self, id: &JobId, after: u64, limit: usize) -> Result<Vec<EventRow>, StoreError> {
        let tables = self.tables();
        let Some(job) = tables.row(id).map(|row| row.number) else { return Ok(Vec::new()) };
        let above = tables.events.range((job, after.saturating_add(1))..=(job, u64::MAX));
        Ok(above.take(limit).map(|(_, event)| event.clone()).collect())
    }

    async fn events_of_kind(
        &self,
        id: &JobId,
        kind: &str,
        after: u64,
        limit: usize,
    ) -> Result<Vec<EventRow>, StoreError> {
        let all = self.events(id, after, usize::MAX).await?;
        Ok(all.into_iter().filter(|event| event.kind == kind).take(limit).collect())
    }

    async fn chunks(
        &self,
        job: i64,
        stream: OutputStream,
        from: u64,
        limit: usize,
    ) -> Result<Vec<ChunkRow>, StoreError> {
        let tables = self.tables();
        let found = tables.chunks.range((job, place(stream), from)..=(job, place(stream), u64::MAX));
        Ok(found.take(limit).map(|(_, chunk)| chunk.clone()).collect())
    }

    async fn chunks_after(
        &self,
        job: i64,
        stream: OutputStream,
        offset: u64,
    ) -> Result<Vec<ChunkRow>, StoreError> {
        let all = self.chunks(job, stream, 0, usize::MAX).await?;
        Ok(all.into_iter().filter(|chunk| chunk.offset + chunk.length > offset).collect())
    }

    async fn insert(&self, job: InsertJob, claim: Option<JobClaim>) -> Result<Inserted, StoreError> {
        let mut tables = self.tables();
        if let Some((key, found)) =
            job.key.as_ref().and_then(|key| Some((key, *tables.keys.get(&key.key_sha256)?)))
        {
            return Ok(match rules::answer_repeat(found, key) {
                RepeatedKey::Taken => Inserted::KeyTaken,
                RepeatedKey::Same(number) => Inserted::Repeated(Box::new(tables.jobs[&number].row.clone())),
            });
        }
        match self.rules().insert(job, tables.queued(), claim)? {
            InsertDecision::Answer(answer) => Ok(answer),
            InsertDecision::Write(write) => {
                self.insert_new(&mut tables, *write).map(|row| Inserted::New(Box::new(row)))
            }
        }
    }

    async fn queued(&self, after: i64, limit: usize) -> Result<Vec<JobRow>, StoreError> {
        let tables = self.tables();
        let waits =
            |row: &&JobRow| row.number > after && row.state == JobState::Queued && !row.delete_requested;
        Ok(tables.rows().filter(waits).take(limit).cloned().collect())
    }

    async fn claim_queued(&self, id: &JobId, claim: JobClaim) -> Result<Option<JobRow>, StoreError> {
        let mut tables = self.tables();
        let write = self.rules().claim_queued(tables.leased(id), claim)?;
        write.map(|write| self.save(&mut tables, write)).transpose()
    }

    async fn claim_orphans(&self, owner: &str, ttl_ms: u64) -> Result<Vec<JobRow>, StoreError> {
        let mut tables = self.tables();
        let mut taken = Vec::new();
        for found in tables.jobs.values().cloned().collect::<Vec<_>>() {
            if let Some(write) = self.rules().claim_orphan(found, owner, ttl_ms)? {
                taken.push(self.save(&mut tables, write)?);
            }
        }
        Ok(taken)
    }

    async fn renew(&self, owner: &str, ttl_ms: u64) -> Result<Vec<JobFence>, StoreError> {
        let (rules, mut tables) = (self.rules(), self.tables());
        let mut kept = Vec::new();
        for job in tables.jobs.values_mut().filter(|job| job.row.open) {
            if let Some(lease) = rules.renew(&job.lease, owner, ttl_ms) {
                job.lease = lease;
                kept.push(job.row.fence());
            }
        }
        Ok(kept)
    }

    async fn release_all(&self, owner: &str) -> Result<(), StoreError> {
        let mut tables = self.tables();
        let held = |job: &&mut LeasedJob| job.lease.owner.as_deref() == Some(owner);
        tables.jobs.values_mut().filter(held).for_each(|job| job.lease = JobLease::free());
        let held = |row: &&mut SandboxRow| row.owner.as_deref() == Some(owner);
        tables.sandboxes.values_mut().filter(held).for_each(|row| row.owner = None);
        Ok(())
    }

    async fn requeue(&self, fence: &JobFence, reason: String) -> Result<(), StoreError> {
        let mut tables = self.tables();
        let write = self.rules().requeue(tables.row(&fence.job), fence, reason)?;
        self.save(&mut tables, write).map(drop)
    }

    async fn commit(&self, fence: &JobFence, changes: Vec<Change>) -> Result<JobRow, StoreError> {
        let mut tables = self.tables();
        let write = self.rules().commit(tables.row(&fence.job), fence, changes)?;
        self.save(&mut tables, write)
    }

    async fn append(
        &self,
        fence: &JobFence,
        number: u64,
        entry: Box<JournalEntry>,
    ) -> Result<Appended, StoreError> {
        let mut tables = self.tables();
        let row = rules::owned(tables.row(&fence.job), fence)?;
        let mut behind = tables.journal.range((row.number, number)..=(row.number, u64::MAX));
        let found = behind.find(|(_, entry)| entry.kind != "said");
        let found =
            found.map(|((_, number), entry)| StoredEntry { number: *number, text: entry.text.clone() });
        match self.rules().append(row, found.as_ref(), number, entry)? {
            AppendDecision::Answer(answer) => Ok(answer),
            AppendDecision::Write { number, write } => {
                self.save(&mut tables, *write).map(|_| Appended::Kept { number })
            }
        }
    }

    async fn say(&self, id: &JobId, said: Box<JournalEntry>, entry: AuditEntry) -> Result<Said, StoreError> {
        let mut tables = self.tables();
        match self.rules().say(tables.row(id), said, entry)? {
            SayDecision::Answer(answer) => Ok(answer),
            SayDecision::Write(write) => self.save(&mut tables, *write).map(|row| Said::Kept(Box::new(row))),
        }
    }

    async fn note(
        &self,
        id: &JobId,
        epoch: Option<u64>,
        entries: Vec<AuditEntry>,
    ) -> Result<Option<NotedEntries>, StoreError> {
        let mut tables = self.tables();
        let Some(write) = self.rules().note(tables.row(id), id, epoch, &entries)? else { return Ok(None) };
        let number = write.row.number;
        tables.audit.extend(write.lines.into_iter().map(|line| ((number, line.number), line)));
        if let Some(job) = tables.jobs.get_mut(&number) {
            job.row = write.row;
        }
        Ok(Some(write.notes))
    }

    async fn audit(&self, of: AuditOf, first: u64, limit: usize) -> Result<Vec<AuditLine>, StoreError> {
        let tables = self.tables();
        Ok(match of {
            AuditOf::Job(job) => {
                let found = tables.audit.range((job, first)..=(job, u64::MAX));
                found.take(limit).map(|(_, line)| line.clone()).collect()
            }
            AuditOf::Yard => {
                tables.yard_lines.iter().filter(|line| line.number >= first).take(limit).cloned().collect()
            }
        })
    }

    async fn keep_texts(
        &self,
        id: &JobId,
        epoch: Option<u64>,
        texts: Vec<NewText>,
    ) -> Result<Option<()>, StoreError> {
        let mut tables = self.tables();
        let Some(write) = self.rules().keep_texts(tables.row(id), id, epoch, texts)? else { return Ok(None) };
        tables.texts.add(&write);
        if let Some(job) = tables.jobs.get_mut(&write.row.number) {
            job.row = write.row;
        }
        Ok(Some(()))
    }

    async fn texts(&self, job: i64, first: u64, limit: usize) -> Result<Vec<TextRow>, StoreError> {
        Ok(self.tables().texts.from(job, first).take(limit).cloned().collect())
    }

    async fn texts_of(
        &self,
        job: i64,
        path: &str,
        before: u64,
        limit: usize,
    ) -> Result<Vec<TextRow>, StoreError> {
        let tables = self.tables();
        let found = tables.texts.from(job, 0).rev().filter(|text| text.path == path && text.entry < before);
        Ok(found.take(limit).cloned().collect())
    }

    async fn texts_at(&self, job: i64, entry: u64, limit: usize) -> Result<Vec<TextRow>, StoreError> {
        let tables = self.tables();
        Ok(tables.texts.from(job, 0).filter(|text| text.entry == entry).take(limit).cloned().collect())
    }

    async fn text(&self, job: i64, digest: ContentDigest) -> Result<Option<StoredText>, StoreError> {
        Ok(self.tables().texts.stored(job, digest))
    }

    async fn note_yard(&self, entry: AuditEntry) -> Result<(), StoreError> {
        self.note_in_yard(&mut self.tables(), &entry);
        Ok(())
    }

    async fn yard_audit(&self) -> Result<AuditRow, StoreError> {
        Ok(self.tables().yard_audit.clone().unwrap_or_else(|| self.signer.empty_yard_audit()))
    }

    async fn journal(
        &self,
        job: i64,
        first: u64,
        limit: usize,
        bytes: usize,
    ) -> Result<Vec<JournalRow>, StoreError> {
        let tables = self.tables();
        let mut taken = 0;
        let fits = |entry: &&NewEntry| {
            let fits = taken < bytes;
            taken += entry.text.len();
            fits
        };
        let found = tables.journal.range((job, first)..=(job, u64::MAX)).map(|(_, entry)| entry);
        found.take(limit).take_while(fits).map(entry_of).collect()
    }

    async fn request_cancel(&self, id: &JobId, entry: AuditEntry) -> Result<Option<JobRow>, StoreError> {
        let mut tables = self.tables();
        match self.rules().request_cancel(tables.row(id), entry)? {
            CancelDecision::Unknown => Ok(None),
            CancelDecision::Answer(row) => Ok(Some(*row)),
            CancelDecision::Write(write) => self.save(&mut tables, *write).map(Some),
        }
    }

    async fn request_delete(&self, id: &JobId, entry: AuditEntry) -> Result<Option<JobRow>, StoreError> {
        let mut tables = self.tables();
        let write = self.rules().request_delete(tables.row(id), entry)?;
        write.map(|write| self.save(&mut tables, write)).transpose()
    }

    async fn remove(&self, fence: &JobFence) -> Result<(), StoreError> {
        let mut tables = self.tables();
        let removed = self.rules().remove(tables.row(&fence.job), fence)?;
        if let Some(sandbox) = removed.leaves {
            write_sandbox(&mut tables.sandboxes, &SandboxWrite::Leave(sandbox))?;
        }
        let number = removed.row.number;
        tables.jobs.remove(&number);
        tables.requests.remove(&number);
        tables.keys.retain(|_, found| found.job != number);
        tables.events.retain(|(job, _), _| *job != number);
        tables.chunks.retain(|(job, ..), _| *job != number);
        tables.journal.retain(|(job, _), _| *job != number);
        tables.texts.remove(number);
        tables.audit.retain(|(job, _), _| *job != number);
        self.watchers.wake(&fence.job);
        Ok(())
    }

    async fn retained(&self) -> Result<Retained, StoreError> {
        let ended = self.ended().await?;
        let bytes = self.tables().rows().map(JobRow::kept_bytes).sum();
        Ok(Retained { bytes, oldest_ms: ended.first().map(|job| job.finished_ms) })
    }

    async fn ended(&self) -> Result<Vec<EndedJob>, StoreError> {
        let tables = self.tables();
        let ended = |row: &JobRow| {
            let finished_ms = row.finished_ms.filter(|_| !row.open)?;
            Some(EndedJob { id: row.id.clone(), finished_ms, bytes: row.kept_bytes() })
        };
        let mut found: Vec<EndedJob> = tables.rows().filter_map(ended).collect();
        found.sort_by_key(|job| job.finished_ms);
        Ok(found)
    }

    async fn open_jobs(&self) -> Result<Vec<JobRow>, StoreError> {
        Ok(self.tables().rows().filter(|row| row.open).cloned().collect())
    }

    async fn ids_beginning(&self, prefix: &JobIdPrefix, limit: usize) -> Result<Vec<JobId>, StoreError> {
        let tables = self.tables();
        let known = tables.rows().filter(|row| !row.delete_requested).map(|row| row.id.clone());
        let mut ids: Vec<_> = known.filter(|id| id.as_str().starts_with(prefix.as_str())).collect();
        ids.sort();
        ids.truncate(limit);
        Ok(ids)
    }

    async fn all_ids(&self) -> Result<Vec<JobId>, StoreError> {
        Ok(self.tables().rows().map(|row| row.id.clone()).collect())
    }

    async fn sandbox(&self, id: &SandboxId) -> Result<Option<SandboxRow>, StoreError> {
        Ok(self.tables().sandboxes.get(id).cloned())
    }

    async fn sandboxes(&self) -> Result<Vec<SandboxRow>, StoreError> {
        let mut found: Vec<SandboxRow> = self.tables().sandboxes.values().cloned().collect();
        found.sort_by_key(|row| row.created_ms);
        Ok(found)
    }

    async fn remove_sandbox(&self, id: &SandboxId) -> Result<(), StoreError> {
        write_sandbox(&mut self.tables().sandboxes, &SandboxWrite::Remove(id.clone()))
    }

    fn counts(&self) -> StateCounts {
        let tables = self.tables();
        JobState::ALL.map(|state| tables.rows().filter(|row| row.state == state).count() as u64)
    }

    fn watch(&self, id: &JobId) -> JobWatch {
        self.watchers.watch(id)
    }

    async fn broken(&self) -> String {
        std::future::pending().await
    }
}
