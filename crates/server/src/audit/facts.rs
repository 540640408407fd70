//! The facts of each kind of record.
//!
//! [`AuditFacts`] is the one list of what a record can state: producers build a variant, the kind follows from it, and
//! [`AuditFacts::to_json`] is the only place that turns it into JSON. The JSON of a variant must never change: verifiers
//! and readers of old audits know it. Facts hold names, sizes and hashes; prompts and file contents stay out.

use sandyard_api::{EgressDecision, JobState};
use sandyard_protocol::WhyAsked;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::call_facts::{CallRecord, CallerFacts, ResultFacts};
use super::kind::AuditKind;
use super::task_facts::{ModelCallFacts, StepEndFacts, StepFacts};
use super::yard_facts::{JobActFacts, StartFacts};

/// The facts of a record. Numbers are whole: the encoding of fractions differs between languages.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum AuditFacts {
    /// A job was made.
    Schedule(Box<ScheduleFacts>),
    /// A job moved to another state.
    State(StateFacts),
    /// Somebody cancelled the job.
    Cancel(CallerFacts),
    /// Somebody deleted the job, or retention did.
    Delete(CallerFacts),
    /// Somebody answered a task, or the host in the place of one who did not.
    Reply(ReplyFacts),
    /// Somebody is about to use the job through the API.
    Call(Box<CallRecord>),
    /// A recorded call ended.
    Result(ResultFacts),
    /// A program in the sandbox asked for a connection.
    Egress(EgressFacts),
    /// A task calls a model.
    Model(ModelCallFacts),
    /// The host used a secret of the operator for the job.
    Secret {
        secret: String,
        #[serde(rename = "for")]
        purpose: &'static str,
        /// Journal number of the answer.
        entry: u64,
    },
    /// A task is about to call a tool.
    Step(StepFacts),
    /// A tool call of a task ended.
    StepEnded(StepEndFacts),
    /// A task asked a person.
    Asked { why: WhyAsked, sha256: String },
    /// A task declared itself done, or gave up.
    Finished { done: bool, sha256: String },
    /// Files changed in the workspace.
    Workspace(WorkspaceFacts),
    /// The workspace was exported.
    Export(ExportFacts),
    /// The download is complete.
    Artifact { sha256: String, bytes: u64, left_out: usize },
    /// Of the yard: somebody cancelled a job.
    JobCancelled(JobActFacts),
    /// Of the yard: somebody deleted a job, or retention did.
    JobDeleted(JobActFacts),
    /// Of the yard: a server began to serve it.
    Start(StartFacts),
}

impl AuditFacts {
    pub(crate) fn kind(&self) -> AuditKind {
        match self {
            Self::Schedule(_) => AuditKind::Schedule,
            Self::State(_) => AuditKind::State,
            Self::Cancel(_) | Self::JobCancelled(_) => AuditKind::Cancel,
            Self::Delete(_) | Self::JobDeleted(_) => AuditKind::Delete,
            Self::Reply(_) => AuditKind::Reply,
            Self::Call(record) => record.call.kind(),
            Self::Result(_) => AuditKind::Result,
            Self::Egress(_) => AuditKind::Egress,
            Self::Model(_) => AuditKind::Model,
            Self::Secret { .. } => AuditKind::Secret,
            Self::Step(_) => AuditKind::Step,
            Self::StepEnded(_) => AuditKind::StepEnded,
            Self::Asked { .. } => AuditKind::Asked,
            Self::Finished { .. } => AuditKind::Finished,
            Self::Workspace(_) => AuditKind::Workspace,
            Self::Export(_) => AuditKind::Export,
            Self::Artifact { .. } => AuditKind::Artifact,
            Self::Start(_) => AuditKind::Start,
        }
    }

    /// Returns the JSON object of the record's member `facts`.
    pub(crate) fn to_json(&self) -> Value {
        // Serialising fails only for maps with keys that are not text; no variant has one.
        serde_json::to_value(self).unwrap_or_default()
    }
}

/// The request that made a job, by its hashes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ScheduleFacts {
    pub(crate) kind: &'static str,
    pub(crate) input_sha256: String,
    pub(crate) request_sha256: String,
    pub(crate) isolation: String,
    pub(crate) egress: Vec<String>,
    pub(crate) model: Option<String>,
    pub(crate) files: Vec<FileDigest>,
    pub(crate) files_count: usize,
    pub(crate) git: bool,
    /// Names of the environment variables, without values.
    pub(crate) env: Vec<String>,
    #[serde(flatten)]
    pub(crate) caller: CallerFacts,
}

/// A file, by size and hash.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct FileDigest {
    pub(crate) path: String,
    pub(crate) size: u64,
    /// None for an entry without content, and where the guest reports none.
    pub(crate) sha256: Option<String>,
}

/// A state, with driver and runtime at the start and the exit code at the end.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct StateFacts {
    pub(crate) state: JobState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) driver: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) runtime: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) exit_code: Option<i32>,
}

/// A reply to a task.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum ReplyFacts {
    /// A person's words, by length and hash.
    Person {
        bytes: usize,
        sha256: String,
        /// True if the reply changes the budget.
        budget: bool,
        #[serde(flatten)]
        caller: CallerFacts,
    },
    /// The host replied because nobody did.
    Host { by: &'static str, waited_s: u64 },
}

/// A connection out of the sandbox; also the payload of the `egress` event.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct EgressFacts {
    /// Host and port as the sandbox named them.
    pub(crate) target: String,
    pub(crate) decision: EgressDecision,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sent: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) received: Option<u64>,
}

impl EgressFacts {
    pub(crate) fn allowed(target: String) -> Self {
        Self { target, decision: EgressDecision::Allowed, reason: None, sent: None, received: None }
    }

    pub(crate) fn refused(target: String, reason: String) -> Self {
        Self { decision: EgressDecision::Refused, reason: Some(reason), ..Self::allowed(target) }
    }

    pub(crate) fn closed(target: String, sent: u64, received: u64) -> Self {
        Self {
            decision: EgressDecision::Closed,
            sent: Some(sent),
            received: Some(received),
            ..Self::allowed(target)
        }
    }
}

/// A comparison of the workspace with its last known state.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct WorkspaceFacts {
    /// The calls that may have changed files.
    pub(crate) after: Vec<String>,
    #[serde(flatten)]
    pub(crate) found: WorkspaceFindings,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum WorkspaceFindings {
    Changed {
        added: Vec<FileDigest>,
        changed: Vec<FileDigest>,
        removed: Vec<String>,
        /// Added, changed and removed entries, also those beyond the lists.
        counts: [u64; 3],
        entries: u64,
        complete: bool,
        first: bool,
        took_ms: u64,
    },
    Failed {
        failed: String,
    },
}

/// The list of files in a download. `verify` reads it back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ExportFacts {
    /// Name of the list in the archive.
    pub(crate) manifest: String,
    pub(crate) manifest_sha256: String,
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
}

#[cfg(test)]
#[path = "facts_tests.rs"]
mod tests;
