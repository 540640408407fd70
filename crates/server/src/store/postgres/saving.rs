//! The decisions of rules, kept in a group until it is written.

use sandyard_sandbox::driver::SandboxId;

use super::group::{GroupRow, WriteGroup};
use crate::audit::{AuditEntry, AuditLine};
use crate::job::apply::SandboxWrite;
use crate::job::{JobRow, SandboxRow};
use crate::store::StoreError;
use crate::store::rules::{FoundKey, JobWrite, LeasedJob, NewJobWrite, YardNote, write_sandbox};
use crate::store::sealing::{file_place, request_place};
use crate::store::values::text;

impl WriteGroup<'_> {
    /// Keeps the decision of a rule about a stored job. Returns the row.
    pub(super) async fn save(&mut self, write: JobWrite) -> Result<JobRow, StoreError> {
        let drops_request_files = write.drops_request_files();
        let JobWrite { row, before, lease, applied, for_yard } = write;
        // Before the first change: these may fail.
        let sandboxes = self.decide_on_sandboxes(&applied.sandboxes).await?;
        if let Some(entry) = &for_yard {
            self.note_yard(entry).await?;
        }
        self.put_sandboxes(sandboxes);
        if drops_request_files {
            self.additions.dropped_files.push(row.number);
        }
        if before.state != row.state {
            self.totals.moved(Some(before.state), Some(row.state));
        }
        self.totals.resized(before.kept_bytes, row.kept_bytes());
        self.additions.applied.push((row.number, applied));
        self.touched.push(row.id.clone());
        if let Some(job) = self.jobs.get_mut(&row.id).and_then(|job| job.present.as_mut()) {
            job.row = row.clone();
            job.lease = lease.unwrap_or_else(|| job.lease.clone());
        }
        Ok(row)
    }

    /// Keeps a new job. Returns its row, with its number.
    pub(super) async fn insert_new(&mut self, write: NewJobWrite) -> Result<JobRow, StoreError> {
        let NewJobWrite { mut row, lease, request, key, applied } = write;
        let sandboxes = self.decide_on_sandboxes(&applied.sandboxes).await?;
        row.number = self.new_number().await?;
        let number = row.number;
        let sealed = text(&request.job, "request")?;
        let sealed = self.sealer().seal(&request_place(number), sealed.as_bytes())?;
        let mut files = Vec::with_capacity(request.files.len());
        for (place, file) in request.files.into_iter().enumerate() {
            let sealed = self.sealer().seal(&file_place(number, place), &file.bytes)?;
            files.push((number, place, file.path, sealed));
        }
        self.put_sandboxes(sandboxes);
        self.additions.requests.insert(number, sealed);
        self.additions.files.extend(files);
        if let Some(key) = key {
            let found = FoundKey { body_sha256: key.body_sha256, job: number };
            self.additions.keys.push((key.key_sha256, found));
            self.keys.insert(key.key_sha256, Some(found));
        }
        self.totals.moved(None, Some(row.state));
        self.totals.resized(0, row.kept_bytes());
        self.additions.applied.push((number, applied));
        self.touched.push(row.id.clone());
        let present = Some(LeasedJob { row: row.clone(), lease });
        self.jobs.insert(row.id.clone(), GroupRow { stored: None, present });
        Ok(row)
    }

    /// Forgets a job: every row of it goes.
    pub(super) async fn remove(
        &mut self,
        row: &JobRow,
        leaves: Option<SandboxWrite>,
    ) -> Result<(), StoreError> {
        let sandboxes = self.decide_on_sandboxes(leaves.as_slice()).await?;
        self.put_sandboxes(sandboxes);
        self.additions.removed.push(row.number);
        self.totals.moved(Some(row.state), None);
        self.totals.resized(row.kept_bytes(), 0);
        self.touched.push(row.id.clone());
        if let Some(job) = self.jobs.get_mut(&row.id) {
            job.present = None;
        }
        Ok(())
    }

    /// Adds an entry to the yard's audit.
    pub(super) async fn note_yard(&mut self, entry: &AuditEntry) -> Result<(), StoreError> {
        let found = self.yard_audit().await?;
        let place = found.as_ref().map_or(0, |(place, _)| *place);
        let YardNote { audit, lines } = self.rules().note_yard(found.map(|(_, end)| end), entry);
        self.additions.yard_lines.extend(lines);
        if let Some(end) = &mut self.yard {
            // The stored place is read again when the group is written; the last of several ends counts.
            end.present = Some((place, audit));
        }
        Ok(())
    }

    /// Deletes the row of a sandbox that no job has.
    pub(super) async fn remove_sandbox(&mut self, write: SandboxWrite) -> Result<(), StoreError> {
        let sandboxes = self.decide_on_sandboxes(&[write]).await?;
        self.put_sandboxes(sandboxes);
        Ok(())
    }

    /// The rows of sandboxes after writes, in order. Nothing is kept yet, because a later one may be refused.
    async fn decide_on_sandboxes(
        &mut self,
        writes: &[SandboxWrite],
    ) -> Result<Vec<DecidedSandbox>, StoreError> {
        let mut decided: Vec<DecidedSandbox> = Vec::with_capacity(writes.len());
        for write in writes {
            let id = write.sandbox();
            let stored = self.sandbox(id).await?;
            // An earlier write of the same decision comes before what is kept.
            let found = match decided.iter().rev().find(|earlier| earlier.id == *id) {
                Some(earlier) => earlier.row.clone(),
                None => stored,
            };
            decided.push(DecidedSandbox { id: id.clone(), row: write_sandbox(found, write)? });
        }
        Ok(decided)
    }

    fn put_sandboxes(&mut self, decided: Vec<DecidedSandbox>) {
        for DecidedSandbox { id, row } in decided {
            if let Some(sandbox) = self.sandboxes.get_mut(&id) {
                sandbox.present = row;
            }
        }
    }

    /// Keeps a note: the row of its job with its audit, and the records. Wakes nobody.
    pub(super) fn save_note(&mut self, row: JobRow, kept_bytes_before: u64, lines: Vec<AuditLine>) {
        self.totals.resized(kept_bytes_before, row.kept_bytes());
        self.additions.audit.extend(lines.into_iter().map(|line| (row.number, line)));
        if let Some(job) = self.jobs.get_mut(&row.id).and_then(|job| job.present.as_mut()) {
            job.row = row;
        }
    }
}

struct DecidedSandbox {
    id: SandboxId,
    row: Option<SandboxRow>,
}
