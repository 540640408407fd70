//! A job's way to the network, for as long as its owner follows it: the gateway, and what it tells on its way to the store.

use std::collections::BTreeSet;
use std::sync::Arc;

use sandyard_sandbox::machine::Machine;
use serde_json::Value;
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use crate::audit::{Actor, Entry, Kind, cut};
use crate::gateways::egress::{Attempt, Gateway, Outcome, Policy, Refusal, TARGET_BYTES};
use crate::gateways::notes::OwnerNotes;
use crate::gateways::{self, TaskGateways};
use crate::job::{Change, JobRow};
use crate::job::{JobFailure, NewJob};
use crate::yard::YardContext;

/// Attempts that wait for the next commit; a sandbox that makes more waits too.
const WAITING: usize = 64;
/// Events about attempts that one owner records for a job. Bytes are counted for ever.
const EVENTS: usize = 10_000;
/// Refused hosts that a failure names.
const NAMED: usize = 5;

/// The gateway of one job.
#[derive(Debug)]
pub(super) struct EgressLog {
    gateway: Arc<Gateway>,
    attempts: mpsc::Receiver<Attempt>,
    recorded: usize,
    refused: BTreeSet<String>,
}

impl EgressLog {
    /// Rules were checked when the job was made; one that can't be read any more allows nothing.
    pub(super) fn new(job: &NewJob, row: &JobRow, context: &YardContext) -> Self {
        let config = &context.config.egress;
        let policy = Policy::parse(job.egress.iter().map(String::as_str)).unwrap_or_default();
        let (sender, attempts) = mpsc::channel(WAITING);
        let private = Arc::clone(&config.private);
        let notes = OwnerNotes { store: Arc::clone(&context.store), fence: row.fence() };
        let gateway = Gateway::new(policy, private, &config.limits, row.egress_bytes, sender, Some(notes));
        Self { gateway, attempts, recorded: 0, refused: BTreeSet::new() }
    }

    /// Serves a machine until its link is gone or the handle is dropped.
    pub(super) fn serve(&self, machine: &Arc<Machine>, task: Option<TaskGateways>) -> AbortOnDropHandle<()> {
        let serving = gateways::serve(Arc::clone(machine), Arc::clone(&self.gateway), task);
        AbortOnDropHandle::new(tokio::spawn(serving))
    }

    /// The next attempt. Loses nothing when cancelled.
    pub(super) async fn next(&mut self) -> Attempt {
        match self.attempts.recv().await {
            Some(attempt) => attempt,
            // The gateway holds a sender, so this never happens.
            None => std::future::pending().await,
        }
    }

    /// An attempt that has been made and not been taken.
    pub(super) fn waiting(&mut self) -> Option<Attempt> {
        self.attempts.try_recv().ok()
    }

    /// What an attempt changes in the job's record.
    pub(super) fn record(&mut self, attempt: Attempt) -> Vec<Change> {
        let mut changes = Vec::new();
        // What is allowed was recorded before it was done.
        let is_recorded = attempt.outcome == Outcome::Allowed;
        let data = match attempt.outcome {
            Outcome::Allowed => json!({ "target": attempt.target, "decision": "allowed" }),
            Outcome::Refused(refusal) => {
                // A host that can't be reached for another reason is not helped by a rule.
                if matches!(refusal, Refusal::Denied(_)) && self.refused.len() < NAMED {
                    self.refused.insert(attempt.target.clone());
                }
                json!({ "target": attempt.target, "decision": "refused", "reason": refusal.to_string() })
            }
            Outcome::Closed { sent, received } => {
                changes.push(Change::EgressBytes(sent.saturating_add(received)));
                json!({ "target": attempt.target, "decision": "closed", "sent": sent, "received": received })
            }
        };
        if !is_recorded {
            changes.push(Change::Audit(Entry::new(Actor::Job, Kind::Egress, bounded(&data))));
        }
        self.recorded += 1;
        if self.recorded <= EVENTS {
            changes.push(Change::Event { kind: "egress", data });
        }
        changes
    }

    /// Says in a failure what was refused, if nothing better is said there: that is often the cause.
    pub(super) fn explain(&self, failure: Option<JobFailure>) -> Option<JobFailure> {
        let mut failure = failure?;
        if failure.hint.is_none() && !self.refused.is_empty() {
            let hosts: Vec<_> = self.refused.iter().map(String::as_str).collect();
            let hosts = hosts.join(", ");
            failure.hint = Some(format!(
                "it could not reach {hosts}; allow hosts with `egress` (`sandyard run --egress HOST[:PORT]`)"
            ));
        }
        Some(failure)
    }
}

/// The same facts with every text cut: the sandbox chose them.
fn bounded(data: &Value) -> Value {
    let mut data = data.clone();
    for member in data.as_object_mut().into_iter().flat_map(|members| members.values_mut()) {
        if let Some(text) = member.as_str() {
            *member = json!(cut(text, TARGET_BYTES));
        }
    }
    data
}
