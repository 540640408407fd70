//! Records of audits that are noted beside the commits of an owner.

use super::{StoreRules, known};
use crate::audit::{AuditEntry, AuditLine, ChainEndFacts, YARD_CHAIN};
use crate::job::apply;
use crate::job::{AuditRow, JobId, JobRow, NotedEntries};
use crate::store::StoreError;

/// The write of a note: the row's audit, the bytes of the audit, and the revision. Other columns stay.
#[derive(Debug)]
pub(crate) struct NoteWrite {
    pub(crate) row: JobRow,
    pub(crate) kept_bytes_before: u64,
    pub(crate) lines: Vec<AuditLine>,
    pub(crate) notes: NotedEntries,
}

/// The write of an entry of the yard's audit.
#[derive(Debug)]
pub(crate) struct YardNote {
    /// The end of the chain as it is to be stored.
    pub(crate) audit: AuditRow,
    pub(crate) lines: Vec<AuditLine>,
}

impl StoreRules<'_> {
    /// Adds an entry to the yard's audit.
    pub(crate) fn note_yard(&self, found: Option<AuditRow>, entry: &AuditEntry) -> YardNote {
        let mut audit = found.unwrap_or_else(|| AuditRow::begin(YARD_CHAIN));
        let mut lines = Vec::new();
        audit.note(entry, self.now.wall_ms, &mut lines);
        self.signer.sign(YARD_CHAIN, &mut audit);
        YardNote { audit, lines }
    }

    /// Adds entries to the audit of a job; `None` if the job is unknown. With an epoch, only for its owner. Nobody who waits
    /// for the job is woken, because nothing else in the row has changed.
    pub(crate) fn note(
        &self,
        found: Option<JobRow>,
        id: &JobId,
        epoch: Option<u64>,
        entries: &[AuditEntry],
    ) -> Result<Option<NoteWrite>, StoreError> {
        let Some(mut row) = known(found) else { return Ok(None) };
        // An owner that lost the job must not record acts in the new owner's name.
        if epoch.is_some_and(|epoch| epoch != row.epoch) {
            return Err(StoreError::Stale(id.clone()));
        }
        let kept_bytes_before = row.kept_bytes();
        let mut lines = Vec::new();
        let audit = row.audit.get_or_insert_with(|| AuditRow::begin(id.as_str()));
        let noted = entries.iter().map(|entry| audit.note(entry, self.now.wall_ms, &mut lines)).collect();
        // Folded entries add no record, so the head has not moved and its signature still holds.
        if !lines.is_empty() {
            self.signer.sign(id.as_str(), audit);
        }
        row.audit_bytes += apply::bytes(&lines);
        // The revision rises although nobody is woken: caches compare it before they trust a copy.
        row.revision += 1;
        let notes = NotedEntries { noted, is_over: !row.open };
        Ok(Some(NoteWrite { row, kept_bytes_before, lines, notes }))
    }
}

/// The entry of the yard's audit for an act on the job of this row, which the row's own audit has already.
pub(super) fn yard_entry(entry: &AuditEntry, row: &JobRow) -> Option<AuditEntry> {
    let end =
        row.audit.as_ref().map(|audit| ChainEndFacts { records: audit.records, head: audit.head.clone() });
    entry.for_yard(row.id.as_str(), end)
}
