//! The egress gateway of a job, and the record of its connections. Both live as long as the owner follows the job.

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

/// Attempts that wait for the next commit. A sandbox that makes more connections waits.
const QUEUED_ATTEMPTS: usize = 64;
/// Events about attempts that one owner records for a job. Bytes are counted without a limit.
const MAX_EVENTS: usize = 10_000;
/// Refused hosts that the hint of a failure names.
const MAX_NAMED_HOSTS: usize = 5;

/// The gateway of one job, and the attempts it reports.
#[derive(Debug)]
pub(super) struct EgressLog {
    gateway: Arc<EgressGateway>,
    attempts: mpsc::Receiver<EgressAttempt>,
    recorded: usize,
    refused: BTreeSet<String>,
}

impl EgressLog {
    /// Makes the gateway. The rules were checked when the job was scheduled; rules that can't be parsed now allow nothing.
    pub(super) fn new(job: &NewJob, row: &JobRow, context: &YardContext) -> Self {
        let config = &context.config.egress;
        // Fails closed: the default policy has no rules.
        let policy = EgressPolicy::parse(job.egress.iter().map(String::as_str)).unwrap_or_default();
        let (sender, attempts) = mpsc::channel(QUEUED_ATTEMPTS);
        let private = Arc::clone(&config.private);
        let audit = OwnerAudit { store: Arc::clone(&context.store), fence: row.fence() };
        // Bytes that earlier owners counted are part of the job's limit, or a restart would refill it.
        let gateway =
            EgressGateway::new(policy, private, &config.limits, row.egress_bytes, sender, Some(audit));
        Self { gateway, attempts, recorded: 0, refused: BTreeSet::new() }
    }

    /// Serves the connections of a machine until its link is lost or the handle is dropped.
    pub(super) fn serve(&self, machine: &Arc<Machine>, task: Option<TaskGateways>) -> AbortOnDropHandle<()> {
        let serving = gateways::serve(Arc::clone(machine), Arc::clone(&self.gateway), task);
        AbortOnDropHandle::new(tokio::spawn(serving))
    }

    /// Waits for the next attempt. Cancelling loses none.
    pub(super) async fn next(&mut self) -> EgressAttempt {
        match self.attempts.recv().await {
            Some(attempt) => attempt,
            // `self.gateway` holds a sender, so the channel is never closed.
            None => std::future::pending().await,
        }
    }

    /// Takes an attempt that is already there.
    pub(super) fn waiting(&mut self) -> Option<EgressAttempt> {
        self.attempts.try_recv().ok()
    }

    /// Returns the changes that record an attempt.
    pub(super) fn record(&mut self, attempt: EgressAttempt) -> Vec<Change> {
        let mut changes = Vec::new();
        // The gateway has written the audit record of an allowed attempt before it connected. A second one here would be a
        // duplicate.
        let is_recorded = attempt.outcome == AttemptOutcome::Allowed;
        let facts = match attempt.outcome {
            AttemptOutcome::Allowed => EgressFacts::allowed(attempt.target),
            AttemptOutcome::Refused(refusal) => {
                // Only these are worth a hint: no rule helps against a failed lookup or connection.
                if matches!(refusal, EgressRefusal::Denied(_)) && self.refused.len() < MAX_NAMED_HOSTS {
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
        // Beyond the bound only the event is left out. The audit record and the bytes above are part of the changes already.
        self.recorded += 1;
        if self.recorded <= MAX_EVENTS {
            changes.push(Change::Event(StoredEvent::Egress(facts)));
        }
        changes
    }

    /// Adds a hint about refused hosts to a failure that has none: they are often its cause.
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
