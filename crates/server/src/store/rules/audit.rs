//! Records of audits that are noted beside the commits of an owner.

use super::{StoreRules, known};
use crate::audit::{AuditEntry, AuditLine};
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

impl StoreRules<'_> {
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
        let audit = row.audit.get_or_insert_with(|| AuditRow::begin(id));
        let noted = entries.iter().map(|entry| audit.note(entry, self.now.wall_ms, &mut lines)).collect();
        // Folded entries add no record, so the head has not moved and its signature still holds.
        if !lines.is_empty() {
            self.signer.sign(id, audit);
        }
        row.audit_bytes += apply::bytes(&lines);
        // The revision rises although nobody is woken: caches compare it before they trust a copy.
        row.revision += 1;
        let notes = NotedEntries { noted, is_over: !row.open };
        Ok(Some(NoteWrite { row, kept_bytes_before, lines, notes }))
    }
}
