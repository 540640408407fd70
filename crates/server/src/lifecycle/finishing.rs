//! The phase `finishing`: exports the workspace, stores the artifact, and commits the last state.
//!
//! If the machine is dead, another one is made on the same disk for the export alone. A workspace that can't be exported does
//! not keep the job open for ever: the job ends with an error, and its disk is kept.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sandyard_protocol::ErrorChain;
use sandyard_sandbox::driver::Driver;
use sandyard_sandbox::machine::Machine;

use super::closing::is_exhausted;
use super::explaining::ExplainedResult;
use super::linking;
use super::outcome::JobOutcome;
use super::owner::{JobOwner, LinkedMachine, NextStep, on};
use super::patch::PatchResult;
use super::starting::bring_up_rescue;
use crate::artifacts::{
    ArtifactError, AuditLines, HostAdditions, HostFile, JournalLines, PackedExport, expected_bytes,
    pack_export,
};
use crate::audit::{AuditActor, AuditEntry, AuditFacts};
use crate::blobs::{BlobKey, BlobNoun, Durability};
use crate::job::FailureCode;
use crate::job::JobFailure;
use crate::job::{ArtifactRow, Change, ExplanationRow, JobRow, Purpose, StoredEvent};
use crate::job::{JobState, SandboxState};
use crate::store::StoreError;
use crate::yard::{JobVerdict, YardContext};

/// Longest wait for room on the yard's disk. Other jobs end meanwhile, and retention removes old results.
const RESULT_ROOM_TIMEOUT: Duration = Duration::from_secs(300);
/// Time between two attempts to get that room.
const RESULT_ROOM_INTERVAL: Duration = Duration::from_secs(1);
/// Exports tried before the job ends without an artifact.
const MAX_EXPORTS: u32 = 3;
/// Longest wait for the machine that ran the job to link, or to send its last screenshot.
const LINK_TIMEOUT: Duration = Duration::from_secs(10);

/// What the host adds to a workspace, made in the guest before the export.
struct ResultAdditions {
    patch: PatchResult,
    explained: Option<ExplainedResult>,
}

/// An artifact whose blob is on disk and that no row names yet.
struct ExportedArtifact {
    artifact: ArtifactRow,
    /// Entries that were left out, with the reason.
    skipped: Vec<String>,
    explanation: Option<ExplanationRow>,
}

impl JobOwner {
    pub(super) async fn finish(&mut self, mut row: JobRow) -> Result<NextStep, StoreError> {
        // Before anything of the workspace is read: a write that is acknowledged later would be missing in the result.
        if let Some(reachable) = self.linked.as_ref().and_then(|linked| linked.reachable.as_ref()) {
            reachable.close_doors();
        }
        self.context.config.fail_points.reach("finishing").await;
        let (context, before) = (Arc::clone(&self.context), row.clone());
        // A deletion does not wait for the export: its result would be thrown away. Cancelling the export loses nothing: a
        // half-written archive is a scratch file, which its drop removes, and a rescue machine is named by the row, so `delete`
        // stops it.
        let mut exhausted = is_exhausted(&row);
        let exported = if exhausted {
            Err(failure("the yard's disk ran low".into()))
        } else {
            tokio::select! {
                exported = self.export(&mut row) => exported?,
                deleted = context.deleted(&before) => return on(deleted?),
                verdict = exhaustion(&context, &before) => {
                    exhausted = true;
                    JobOutcome::of_verdict(verdict).failure.map_or_else(|| Err(failure(String::new())), Err)
                }
            }
        };
        self.context.config.fail_points.reach("exported").await;
        // `export` commits a rescue sandbox into `row`, so the row may be newer than the one that was watched.
        if row.delete_requested {
            return on(row);
        }
        let mut outcome = row.outcome.unwrap_or(JobState::Failed);
        let mut reason = row.reason.clone();
        let mut changes = Vec::new();
        match exported {
            Ok(stored) => {
                let bytes = stored.artifact.bytes;
                self.context.metrics.artifact_bytes.fetch_add(bytes, std::sync::atomic::Ordering::Relaxed);
                if !stored.skipped.is_empty() {
                    let text = format!("left out of the download: {}", stored.skipped.join(", "));
                    changes.push(Change::Event(StoredEvent::Note { text }));
                }
                let (sha256, left_out) = (stored.artifact.sha256.clone(), stored.skipped.len());
                let facts = AuditFacts::Artifact { sha256, bytes, left_out };
                changes.push(Change::Audit(AuditEntry::new(AuditActor::Host, facts)));
                changes.push(Change::Artifact(stored.artifact));
                changes.extend(stored.explanation.map(Change::Explained));
            }
            Err(failure) => {
                // A job that failed keeps its own error, which matters more to its reader; the failed export becomes a note.
                if row.failure.is_none() || exhausted && !is_exhausted(&row) {
                    outcome = JobState::Failed;
                    reason = Some(failure.message.clone());
                    let exit_code = row.exit_code;
                    changes.push(Change::Ended { outcome, exit_code, failure: Some(failure) });
                } else {
                    let text = failure.message;
                    changes.push(Change::Event(StoredEvent::Note { text }));
                }
            }
        }
        // A kept machine stays reachable. Clients see every other one as gone from this commit on, and `closing` stops it.
        let kept = row.keep && self.linked.is_some() && row.sandbox == SandboxState::Live;
        if !kept {
            changes.push(Change::Sandbox(SandboxState::Gone));
        }
        // One commit: a terminal state is never visible without its artifact.
        changes.push(Change::Move { to: outcome, reason });
        let row = self.context.commit(&row, changes).await?;
        // The view with closed doors goes. `closing` opens another one for a machine that is kept.
        if let Some(linked) = &mut self.linked {
            linked.reachable = None;
        }
        on(row)
    }

    /// Stores the artifact. The inner error says why there is none; only the store's own failures are tried again.
    async fn export(&mut self, row: &mut JobRow) -> Result<Result<ExportedArtifact, JobFailure>, StoreError> {
        let Some(driver) = self.context.driver(row) else {
            return Ok(Err(failure("its driver is not configured any more".into())));
        };
        let request = self.context.store.request(&row.id).await?;
        let mut last = String::new();
        for _ in 0..MAX_EXPORTS {
            let machine = match self.machine_for_export(driver.as_ref(), row).await? {
                Ok(machine) => machine,
                Err(detail) => {
                    last = detail;
                    continue;
                }
            };
            // A rescue machine may have taken a while; a deletion that came meanwhile makes the export pointless.
            if row.delete_requested {
                break;
            }
            if !self.room_for_result(row).await? {
                let detail = "the yard's disk has no room for it";
                return Ok(Err(failure(detail.to_owned())));
            }
            self.keep_last_screenshot(row, &machine).await;
            let patch = match &request {
                Some(request) => self.make_patch(row, request, &machine).await,
                None => PatchResult::None,
            };
            let explained = self.explain_result(row, request.as_ref(), &machine).await?;
            let additions = ResultAdditions { patch, explained };
            match self.store_workspace(row, &machine, additions).await {
                Ok(stored) => return Ok(Ok(stored)),
                // These failures come from the host or from the size of the workspace, so another machine would fail in the
                // same way.
                Err(
                    error @ (ArtifactError::TooLarge(_) | ArtifactError::Write(_) | ArtifactError::Store(_)),
                ) => {
                    return Ok(Err(failure(ErrorChain(&error).to_string())));
                }
                Err(error) => {
                    tracing::warn!(job = %row.id, error = %ErrorChain(&error), "the export failed");
                    last = ErrorChain(&error).to_string();
                    // The guest or its link failed. The next attempt links again, or makes another machine on the same disk.
                    self.linked = None;
                }
            }
        }
        Ok(Err(failure(last)))
    }

    /// Waits until the yard's disk has room for the result beside everything that is promised. Returns false if no
    /// room came.
    async fn room_for_result(&self, row: &mut JobRow) -> Result<bool, StoreError> {
        let used_mib = self.context.admission.look_at_disk_use_mib(&row.id);
        let bytes = expected_bytes(used_mib, row.limits.machine.disk_mib);
        let deadline = Instant::now() + RESULT_ROOM_TIMEOUT;
        let mut told = false;
        while !self.permit.may_store_result(bytes) {
            if Instant::now() >= deadline {
                return Ok(false);
            }
            if !std::mem::replace(&mut told, true) {
                let text = "waits for room on the yard's disk to save the workspace".to_owned();
                *row = self.context.commit(row, vec![Change::Event(StoredEvent::Note { text })]).await?;
            }
            tokio::time::sleep(RESULT_ROOM_INTERVAL).await;
        }
        Ok(true)
    }

    /// Stores the last screenshot. A job ends without one rather than late.
    async fn keep_last_screenshot(&self, row: &JobRow, machine: &Machine) {
        // Bounded: a guest that never answers must not keep the job from its end.
        match tokio::time::timeout(LINK_TIMEOUT, machine.last_screenshot()).await {
            Ok(Ok(Some(png))) => {
                let blob = (BlobKey::new(&row.id, BlobNoun::LastScreenshot), png.into());
                if let Err(error) = self.context.blobs.put_all(vec![blob], Durability::Synced).await {
                    tracing::warn!(job = %row.id, error = %ErrorChain(&error), "the last screenshot could not be stored");
                }
            }
            Ok(Ok(None)) => {}
            other => tracing::warn!(job = %row.id, ?other, "the last screenshot could not be taken"),
        }
    }

    async fn store_workspace(
        &mut self,
        row: &JobRow,
        machine: &Machine,
        additions: ResultAdditions,
    ) -> Result<ExportedArtifact, ArtifactError> {
        let export = machine.export("").await?;
        let mut files: Vec<HostFile> = summary(row).into_iter().collect();
        let mut missing = None;
        match additions.patch {
            PatchResult::None => {}
            PatchResult::Patch(patch) => files.push(patch),
            PatchResult::Missing(why) => missing = Some(why),
        }
        let explanation = additions.explained.map(|explained| {
            files.extend(explained.files);
            explained.row
        });
        let at_ms = self.context.clock.unix_ms();
        let (store, job) = (Arc::clone(&self.context.store), row.number);
        let audit = Some(AuditLines { store: Arc::clone(&store), job, fence: row.fence(), at_ms });
        let journal = row.task.is_some().then_some(JournalLines { store, job, at_ms });
        let additions = HostAdditions { journal, audit, files: &files };
        let bounds = self.context.config.export.on_a_disk(row.limits.machine.disk_mib);
        let packed = pack_export(export, &self.context.scratch, &bounds, additions).await?;
        let PackedExport { artifact, mut skipped, file } = packed;
        // The blob is stored before the row names it. A crash in between repeats the export, which replaces the blob.
        self.context.blobs.put_file(&BlobKey::new(&row.id, BlobNoun::ResultArchive), file).await?;
        skipped.extend(missing);
        Ok(ExportedArtifact { artifact, skipped, explanation })
    }

    /// Returns a machine that has the workspace: the present one if it lives, otherwise a new one on the same disk.
    async fn machine_for_export(
        &mut self,
        driver: &dyn Driver,
        row: &mut JobRow,
    ) -> Result<Result<Arc<Machine>, String>, StoreError> {
        if let Some(linked) = &self.linked {
            return Ok(Ok(Arc::clone(&linked.machine)));
        }
        if row.incarnation == 0 {
            return Ok(Err("it never had a sandbox".into()));
        }
        if let Some(sandbox) = row.sandbox_id.clone() {
            if row.sandbox != SandboxState::Gone
                && linking::is_alive(driver, &sandbox).await
                && let Ok(machine) = linking::link(&self.context, driver, row, &sandbox, LINK_TIMEOUT).await
            {
                return Ok(Ok(self.hold_link(machine)));
            }
            // Two machines that write to one disk would destroy it, so the old one is stopped before the new one gets its row.
            self.stop_sandbox(driver, &sandbox).await;
        }
        let change = self.context.new_sandbox(row, driver, Purpose::Rescue)?;
        // The row of the rescue sandbox is committed before the machine is made: after a crash the next owner can stop it.
        *row = self.commit(row, vec![change]).await?;
        let Some(sandbox) = row.sandbox_id.clone() else { return Ok(Err("it has no sandbox".into())) };
        let context = Arc::clone(&self.context);
        match bring_up_rescue(&context, driver, row, &sandbox).await {
            Ok(machine) => Ok(Ok(self.hold_link(machine))),
            Err(detail) => Ok(Err(detail)),
        }
    }

    fn hold_link(&mut self, machine: Arc<Machine>) -> Arc<Machine> {
        self.linked = Some(LinkedMachine::new(Arc::clone(&machine)));
        machine
    }
}

/// Waits until the server decides that the job has to give its disk back.
async fn exhaustion(context: &YardContext, row: &JobRow) -> JobVerdict {
    match context.verdicts.wait(&row.id).await {
        verdict @ JobVerdict::DiskExhausted { .. } => verdict,
        // A cancelled job is exported all the same.
        JobVerdict::Cancelled => std::future::pending().await,
    }
}

fn failure(detail: String) -> JobFailure {
    JobFailure {
        code: FailureCode::ExportFailed,
        message: format!("the workspace could not be saved: {detail}"),
        hint: Some("look for a full disk on the host; the sandbox's own disk was kept".into()),
    }
}

/// The summary of a task, for people who have only the download.
fn summary(row: &JobRow) -> Option<HostFile> {
    let words = row.task.as_ref()?.summary.as_ref()?;
    Some(HostFile { name: "SUMMARY.md", bytes: format!("{}\n", words.trim_end()).into() })
}
