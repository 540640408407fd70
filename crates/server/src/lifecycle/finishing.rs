//! The phase `finishing`: take the workspace out, store the artifact, reach the last state.
//!
//! If the machine is dead, another one is made on the same disk for the export alone. A workspace that can't be taken out
//! does not hold the job up for ever: it ends, its error says so, and its disk stays.

use std::sync::Arc;
use std::time::Duration;

use sandyard_sandbox::driver::Driver;
use sandyard_sandbox::machine::Machine;

use super::following::now;
use super::linking;
use super::owner::{JobOwner, LinkedMachine, NextStep, on};
use super::patch::PatchResult;
use super::starting::bring_up_rescue;
use crate::artifacts::{Additions, ArtifactError, AuditLines, HostFile, JournalLines, Stored, store_export};
use crate::audit::{AuditActor, AuditEntry, AuditFacts};
use crate::disk;
use crate::error_chain::chain;
use crate::job::FailureCode;
use crate::job::JobFailure;
use crate::job::{Change, JobRow, Purpose, StoredEvent};
use crate::job::{JobState, SandboxState};
use crate::store::StoreError;
use crate::yard::new_secret;

/// Exports tried before the job ends without one.
const ATTEMPTS: u32 = 3;
/// How long the machine that ran the job may take to link for the export.
const LINK: Duration = Duration::from_secs(10);

impl JobOwner {
    pub(super) async fn finish(&mut self, mut row: JobRow) -> Result<NextStep, StoreError> {
        self.context.config.fail_points.reach("finishing").await;
        let (context, before) = (Arc::clone(&self.context), row.clone());
        let exported = tokio::select! {
            exported = self.export(&mut row) => exported?,
            deleted = context.deleted(&before) => return on(deleted?),
        };
        self.context.config.fail_points.reach("exported").await;
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
            }
            Err(failure) => {
                if row.failure.is_none() {
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
        let kept = row.keep && self.linked.is_some() && row.sandbox == SandboxState::Live;
        if !kept {
            changes.push(Change::Sandbox(SandboxState::Gone));
        }
        changes.push(Change::Move { to: outcome, reason });
        on(self.context.commit(&row, changes).await?)
    }

    /// The artifact, or why there is none.
    async fn export(&mut self, row: &mut JobRow) -> Result<Result<Stored, JobFailure>, StoreError> {
        let Some(driver) = self.context.driver(row) else {
            return Ok(Err(failure("its driver is not configured any more".into())));
        };
        let mut last = String::new();
        for _ in 0..ATTEMPTS {
            let machine = match self.machine_for_export(driver.as_ref(), row).await? {
                Ok(machine) => machine,
                Err(detail) => {
                    last = detail;
                    continue;
                }
            };
            if row.delete_requested {
                break;
            }
            self.keep_last_screenshot(row, &machine).await;
            let changes = self.changes(row, &machine).await?;
            match self.take_out(row, &machine, &changes).await {
                Ok(stored) => return Ok(Ok(stored)),
                Err(error @ (ArtifactError::TooLarge(_) | ArtifactError::Write(_))) => {
                    return Ok(Err(failure(chain(&error))));
                }
                Err(error) => {
                    tracing::warn!(job = %row.id, error = %chain(&error), "the export failed");
                    last = chain(&error);
                    self.linked = None;
                }
            }
        }
        Ok(Err(failure(last)))
    }

    /// A picture that can't be had holds nothing up.
    async fn keep_last_screenshot(&self, row: &JobRow, machine: &Machine) {
        match tokio::time::timeout(LINK, machine.last_screenshot()).await {
            Ok(Ok(Some(png))) => {
                let path = self.context.layout.screenshot(&row.id);
                let kept = disk::blocking(move || disk::write_durably(&path, &[&png])).await;
                if let Err(error) = kept {
                    tracing::warn!(job = %row.id, %error, "the last screenshot could not be kept");
                }
            }
            Ok(Ok(None)) => {}
            other => tracing::warn!(job = %row.id, ?other, "the last screenshot could not be had"),
        }
    }

    async fn take_out(
        &mut self,
        row: &JobRow,
        machine: &Machine,
        changes: &PatchResult,
    ) -> Result<Stored, ArtifactError> {
        let export = machine.export("").await?;
        let path = self.context.layout.artifact(&row.id);
        let mut files: Vec<HostFile> = summary(row).into_iter().collect();
        let mut missing = None;
        match changes {
            PatchResult::None => {}
            PatchResult::Patch(patch) => files.push(patch.clone()),
            PatchResult::Missing(why) => missing = Some(why.clone()),
        }
        let at_ms = i64::try_from(now().as_millis()).unwrap_or(i64::MAX);
        let (store, job) = (Arc::clone(&self.context.store), row.number);
        let audit = Some(AuditLines { store: Arc::clone(&store), job, fence: row.fence(), at_ms });
        let journal = row.task.is_some().then_some(JournalLines { store, job, at_ms });
        let additions = Additions { journal, audit, files: &files };
        let bounds = self.context.config.export.on_a_disk(row.limits.machine.disk_mib);
        let mut stored = store_export(export, &path, &bounds, additions).await?;
        stored.skipped.extend(missing);
        Ok(stored)
    }

    /// A machine that has the workspace: the present one if it lives, otherwise a new one on the same disk.
    async fn machine_for_export(
        &mut self,
        driver: &dyn Driver,
        row: &mut JobRow,
    ) -> Result<Result<Arc<Machine>, String>, StoreError> {
        if let Some(linked) = &self.linked {
            return Ok(Ok(Arc::clone(&linked.machine)));
        }
        let Some(sandbox) = row.sandbox_id() else { return Ok(Err("it never had a sandbox".into())) };
        if row.sandbox != SandboxState::Gone
            && linking::is_alive(driver, &sandbox).await
            && let Ok(machine) = linking::link(&self.context, driver, row, &sandbox, LINK).await
        {
            return Ok(Ok(self.hold_link(machine)));
        }
        self.stop_sandbox(driver, &sandbox).await;
        let change = Change::Incarnation { secret: new_secret(), purpose: Purpose::Rescue };
        *row = self.context.commit(row, vec![change]).await?;
        let Some(sandbox) = row.sandbox_id() else { return Ok(Err("it has no sandbox".into())) };
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

fn failure(detail: String) -> JobFailure {
    JobFailure {
        code: FailureCode::ExportFailed,
        message: format!("the workspace could not be saved: {detail}"),
        hint: Some("look for a full disk on the host; the sandbox's own disk was kept".into()),
    }
}

/// What a task says it did, for those who have only the download.
fn summary(row: &JobRow) -> Option<HostFile> {
    let words = row.task.as_ref()?.summary.as_ref()?;
    Some(HostFile { name: "SUMMARY.md", bytes: format!("{}\n", words.trim_end()).into() })
}
