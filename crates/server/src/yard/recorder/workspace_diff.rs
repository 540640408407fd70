//! Workspace diffs: after calls that may have changed files, the guest lists the changes and the audit records them.
//!
//! At most one diff runs for each job, beside everything else that the job does. Requests that arrive meanwhile share the
//! next diff.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sandyard_protocol::{ChangedPath, ErrorChain, WorkspaceChanges};
use sandyard_sandbox::machine::Machine;
use tokio::task::JoinSet;

use super::super::Machines;
use super::AuditWriter;
use crate::audit::{AuditActor, AuditEntry, AuditFacts, FileDigest, WorkspaceFacts, WorkspaceFindings, cut};
use crate::job::JobId;

/// Time for which requests are gathered, so that a flood of calls costs few diffs.
const GATHER_TIME: Duration = Duration::from_millis(100);
/// Longest wait for the guest, which bounds its own time below this.
const DIFF_TIMEOUT: Duration = Duration::from_secs(20);
/// Causes that one record names.
const MAX_CAUSES: usize = 20;
/// Paths that one record names.
const MAX_PATHS: usize = 100;
/// Longest path in a record.
const MAX_PATH_BYTES: usize = 200;
/// Longest error text in a record.
const MAX_ERROR_BYTES: usize = 200;
/// Hexadecimal digits of a SHA-256.
const SHA256_DIGITS: usize = 64;

/// Causes of the next diff, for each job that has a diff task.
type DiffRequests = Arc<Mutex<HashMap<JobId, Vec<String>>>>;

/// The diff tasks of a yard. Dropping it ends them.
pub(super) struct WorkspaceDiffs {
    writer: AuditWriter,
    machines: Machines,
    requests: DiffRequests,
    tasks: Mutex<JoinSet<()>>,
}

impl WorkspaceDiffs {
    pub(super) fn new(writer: AuditWriter, machines: Machines) -> Self {
        Self { writer, machines, requests: DiffRequests::default(), tasks: Mutex::default() }
    }

    /// Ensures that a diff begins after this moment.
    pub(super) fn request(&self, job: &JobId, after: String) {
        let mut requests = self.requests.lock();
        if let Some(causes) = requests.get_mut(job) {
            // The job has a task, which takes this cause into its next round.
            if causes.len() < MAX_CAUSES {
                causes.push(after);
            }
            return;
        }
        requests.insert(job.clone(), vec![after]);
        // One lock at a time. The entry in the map is what keeps a second task from being spawned.
        drop(requests);
        let mut tasks = self.tasks.lock();
        while tasks.try_join_next().is_some() {}
        let requests = Arc::clone(&self.requests);
        tasks.spawn(diff_until_idle(self.writer.clone(), self.machines.clone(), requests, job.clone()));
    }
}

/// Runs diffs of one job until no request is left.
async fn diff_until_idle(writer: AuditWriter, machines: Machines, requests: DiffRequests, job: JobId) {
    loop {
        tokio::time::sleep(GATHER_TIME).await;
        let causes = {
            let mut requests = requests.lock();
            match requests.get_mut(&job) {
                Some(causes) if !causes.is_empty() => std::mem::take(causes),
                // Removed under the same lock: a request from now on starts a task of its own.
                _ => {
                    requests.remove(&job);
                    return;
                }
            }
        };
        // Without a machine there is nothing to compare; the export lists the files.
        let Some(machine) = machines.get(&job) else { continue };
        let Some(facts) = diff(&machine, causes).await else { continue };
        let entry = AuditEntry::new(AuditActor::Host, AuditFacts::Workspace(facts));
        if let Err(error) = writer.write(&job, vec![entry]).await {
            tracing::warn!(%job, error = %ErrorChain(&error), "a workspace diff is missing in the audit");
        }
    }
}

/// Returns the facts of a diff; none if nothing has changed.
async fn diff(machine: &Machine, after: Vec<String>) -> Option<WorkspaceFacts> {
    let began = Instant::now();
    let failed = |failed: String| WorkspaceFindings::Failed { failed };
    let found = match tokio::time::timeout(DIFF_TIMEOUT, machine.workspace_changes()).await {
        Ok(Ok(changes)) if changes.is_empty() => return None,
        Ok(Ok(changes)) => describe(&changes, began.elapsed()),
        Ok(Err(error)) => failed(cut(&ErrorChain(&error).to_string(), MAX_ERROR_BYTES)),
        Err(_) => failed("the sandbox did not answer in time".to_owned()),
    };
    Some(WorkspaceFacts { after, found })
}

/// Bounds the guest's lists. The numbers are the guest's own and are not checked.
fn describe(changes: &WorkspaceChanges, took: Duration) -> WorkspaceFindings {
    let mut room = MAX_PATHS;
    let mut list = |paths: &[ChangedPath]| -> Vec<FileDigest> {
        // The guest's lists are hostile: without a bound, one diff could fill the audit.
        let listed: Vec<FileDigest> = paths.iter().take(room).map(bounded).collect();
        room -= listed.len();
        listed
    };
    let (added, changed) = (list(&changes.added), list(&changes.changed));
    let removed = changes.removed.iter().take(room).map(|path| cut(path, MAX_PATH_BYTES)).collect();
    WorkspaceFindings::Changed {
        added,
        changed,
        removed,
        counts: [changes.added_count, changes.changed_count, changes.removed_count],
        entries: changes.entries,
        complete: changes.complete,
        first: changes.first,
        took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
    }
}

fn bounded(changed: &ChangedPath) -> FileDigest {
    FileDigest {
        path: cut(&changed.path, MAX_PATH_BYTES),
        size: changed.size,
        sha256: changed.sha256.as_deref().map(|hash| cut(hash, SHA256_DIGITS)),
    }
}
