//! A job's way to the network, for as long as its owner follows it: the gateway, and what it tells on its way to the store.

use std::collections::BTreeSet;
use std::sync::Arc;

use sandyard_sandbox::machine::Machine;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use crate::audit::{AuditActor, AuditEntry, AuditFacts, EgressFacts, cut};
use crate::gateways::egress::{
    AttemptOutcome, EgressAttempt, EgressGateway, EgressPolicy, EgressRefusal, MAX_TARGET_BYTES,
};
use crate::gateways::owner_audit::OwnerAudit;
use crate::gateways::{self, TaskGateways};
use crate::job::{Change, JobRow, StoredEvent};
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
    gateway: Arc<EgressGateway>,
    attempts: mpsc::Receiver<EgressAttempt>,
    recorded: usize,
    refused: BTreeSet<String>,
}

impl EgressLog {
    /// Rules were checked when the job was made; one that can't be read any more allows nothing.
    pub(super) fn new(job: &NewJob, row: &JobRow, context: &YardContext) -> Self {
        let config = &context.config.egress;
        let policy = EgressPolicy::parse(job.egress.iter().map(String::as_str)).unwrap_or_default();
        let (sender, attempts) = mpsc::channel(WAITING);
        let private = Arc::clone(&config.private);
        let audit = OwnerAudit { store: Arc::clone(&context.store), fence: row.fence() };
        let gateway =
            EgressGateway::new(policy, private, &config.limits, row.egress_bytes, sender, Some(audit));
        Self { gateway, attempts, recorded: 0, refused: BTreeSet::new() }
    }

    /// Serves a machine until its link is gone or the handle is dropped.
    pub(super) fn serve(&self, machine: &Arc<Machine>, task: Option<TaskGateways>) -> AbortOnDropHandle<()> {
        let serving = gateways::serve(Arc::clone(machine), Arc::clone(&self.gateway), task);
        AbortOnDropHandle::new(tokio::spawn(serving))
    }

    /// The next attempt. Loses nothing when cancelled.
    pub(super) async fn next(&mut self) -> EgressAttempt {
        match self.attempts.recv().await {
            Some(attempt) => attempt,
            // The gateway holds a sender, so this never happens.
            None => std::future::pending().await,
        }
    }

    /// An attempt that has been made and not been taken.
    pub(super) fn waiting(&mut self) -> Option<EgressAttempt> {
        self.attempts.try_recv().ok()
    }

    /// What an attempt changes in the job's record.
    pub(super) fn record(&mut self, attempt: EgressAttempt) -> Vec<Change> {
        let mut changes = Vec::new();
        // What is allowed was recorded before it was done.
        let is_recorded = attempt.outcome == AttemptOutcome::Allowed;
        let facts = match attempt.outcome {
            AttemptOutcome::Allowed => EgressFacts::allowed(attempt.target),
            AttemptOutcome::Refused(refusal) => {
                // A host that can't be reached for another reason is not helped by a rule.
                if matches!(refusal, EgressRefusal::Denied(_)) && self.refused.len() < NAMED {
                    self.refused.insert(attempt.target.clone());
                }
                EgressFacts::refused(attempt.target, refusal.to_string())
            }
            AttemptOutcome::Closed { sent, received } => {
                changes.push(Change::EgressBytes(sent.saturating_add(received)));
                EgressFacts::closed(attempt.target, sent, received)
            }
        };
        if !is_recorded {
            changes.push(Change::Audit(AuditEntry::new(AuditActor::Job, bounded(&facts))));
        }
        self.recorded += 1;
        if self.recorded <= EVENTS {
            changes.push(Change::Event(StoredEvent::Egress(facts)));
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

/// The facts for the audit, with bounded text: the sandbox chose the target.
fn bounded(facts: &EgressFacts) -> AuditFacts {
    let target = cut(&facts.target, MAX_TARGET_BYTES);
    let reason = facts.reason.as_deref().map(|reason| cut(reason, MAX_TARGET_BYTES));
    AuditFacts::Egress(EgressFacts { target, reason, ..facts.clone() })
}
