//! WorkspaceDiffs at workspaces: one at a time for each job, beside what the job does; what is asked for meanwhile is one look more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use sandyard_protocol::{ChangedPath, WorkspaceChanges};
use sandyard_sandbox::machine::Machine;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::super::Machines;
use super::Notes;
use crate::audit::{Actor, Entry, Kind, cut};
use crate::error_chain::chain;
use crate::job::JobId;

/// Calls that come shortly after each other share a look, so that a flood of them costs few.
const GATHER: Duration = Duration::from_millis(100);
/// The guest bounds its own time; one that does not answer is left alone.
const PATIENCE: Duration = Duration::from_secs(20);
/// Reasons that one record names.
const REASONS: usize = 20;
/// Paths that one record names, and of each so much.
const PATHS: usize = 100;
const PATH_BYTES: usize = 200;

/// Reasons for the next look, for each job that is being looked at.
type Asked = Arc<Mutex<HashMap<JobId, Vec<String>>>>;

/// All looks under way.
pub(super) struct WorkspaceDiffs {
    notes: Notes,
    machines: Machines,
    asked: Asked,
    tasks: Mutex<JoinSet<()>>,
}

impl WorkspaceDiffs {
    pub(super) fn new(notes: Notes, machines: Machines) -> Self {
        Self { notes, machines, asked: Asked::default(), tasks: Mutex::default() }
    }

    /// Sees to it that the workspace is looked at after this moment.
    pub(super) fn ask(&self, job: &JobId, after: String) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reasons) = asked.get_mut(job) {
            if reasons.len() < REASONS {
                reasons.push(after);
            }
            return;
        }
        asked.insert(job.clone(), vec![after]);
        drop(asked);
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(look(self.notes.clone(), self.machines.clone(), Arc::clone(&self.asked), job.clone()));
    }
}

/// WorkspaceDiffs until nobody asks any more.
async fn look(notes: Notes, machines: Machines, asked: Asked, job: JobId) {
    loop {
        tokio::time::sleep(GATHER).await;
        let reasons = {
            let mut asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
            match asked.get_mut(&job) {
                Some(reasons) if !reasons.is_empty() => std::mem::take(reasons),
                _ => {
                    asked.remove(&job);
                    return;
                }
            }
        };
        // Without a machine the export tells what is there.
        let Some(machine) = machines.get(&job) else { continue };
        let Some(facts) = facts(&machine, &reasons).await else { continue };
        let entry = Entry::new(Actor::Host, Kind::Workspace, facts);
        if let Err(error) = notes.write(&job, vec![entry]).await {
            tracing::warn!(%job, error = %chain(&error), "a look at the workspace is missing in the audit");
        }
    }
}

/// What is recorded of a look; nothing if nothing has changed.
async fn facts(machine: &Machine, after: &[String]) -> Option<Value> {
    let began = Instant::now();
    match tokio::time::timeout(PATIENCE, machine.workspace_changes()).await {
        Ok(Ok(changes)) if changes.is_empty() => None,
        Ok(Ok(changes)) => Some(describe(&changes, after, began.elapsed())),
        Ok(Err(error)) => Some(json!({ "after": after, "failed": cut(&chain(&error), 200) })),
        Err(_) => Some(json!({ "after": after, "failed": "the sandbox did not answer in time" })),
    }
}

/// The guest is not believed: its lists are cut, and its numbers are its own.
fn describe(changes: &WorkspaceChanges, after: &[String], took: Duration) -> Value {
    let mut room = PATHS;
    let mut list = |paths: &[ChangedPath]| -> Vec<Value> {
        let listed: Vec<Value> = paths.iter().take(room).map(path).collect();
        room -= listed.len();
        listed
    };
    let (added, changed) = (list(&changes.added), list(&changes.changed));
    let removed: Vec<String> = changes.removed.iter().take(room).map(|path| cut(path, PATH_BYTES)).collect();
    json!({
        "after": after, "added": added, "changed": changed, "removed": removed,
        "counts": [changes.added_count, changes.changed_count, changes.removed_count],
        "entries": changes.entries, "complete": changes.complete, "first": changes.first,
        "took_ms": u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
    })
}

fn path(changed: &ChangedPath) -> Value {
    let sha256 = changed.sha256.as_deref().map(|hash| cut(hash, 64));
    json!({ "path": cut(&changed.path, PATH_BYTES), "size": changed.size, "sha256": sha256 })
}
