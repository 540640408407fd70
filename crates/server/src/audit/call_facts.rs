//! Facts about calls that people and programs make through the API, and about their results.

use sandyard_api::CodeStatus;
use serde::Serialize;

use super::kind::AuditKind;

/// The caller of a recorded call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct CallerFacts {
    pub(crate) by: String,
    /// The protocol, if it is not the HTTP API itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) over: Option<&'static str>,
}

/// A call that is about to be made. The three parts become one JSON object; a member of the request's body wins over a
/// member of the same name in `call`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct CallRecord {
    #[serde(flatten)]
    pub(crate) call: CallFacts,
    #[serde(flatten)]
    pub(crate) body: BodyFacts,
    #[serde(flatten)]
    pub(crate) caller: CallerFacts,
}

/// The calls that are recorded before they are made.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum CallFacts {
    /// A ticket for a browser.
    Ticket {},
    /// Download of the artifact.
    Download {},
    /// A terminal, the desktop, JupyterLab or a port.
    Open {
        what: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        control: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none")]
        method: Option<String>,
    },
    /// A file of the workspace.
    File {
        operation: String,
        path: String,
        /// `lab` if JupyterLab made the request.
        #[serde(skip_serializing_if = "Option::is_none")]
        through: Option<&'static str>,
    },
    Shell {},
    Code {},
    /// A kernel is made, interrupted or removed.
    Kernel {
        method: String,
        kernel: String,
    },
    /// A signal to a process.
    Signal {
        process: String,
    },
    /// More time for the job.
    Extend {},
    Gui {
        #[serde(skip_serializing_if = "Option::is_none")]
        what: Option<&'static str>,
    },
}

impl CallFacts {
    pub(crate) fn kind(&self) -> AuditKind {
        match self {
            Self::Ticket {} => AuditKind::Ticket,
            Self::Download {} => AuditKind::Download,
            Self::Open { .. } => AuditKind::Open,
            Self::File { .. } => AuditKind::File,
            Self::Shell {} => AuditKind::Shell,
            Self::Code {} => AuditKind::Code,
            Self::Kernel { .. } => AuditKind::Kernel,
            Self::Signal { .. } => AuditKind::Signal,
            Self::Extend {} => AuditKind::Extend,
            Self::Gui { .. } => AuditKind::Gui,
        }
    }
}

/// The body of a request: its hash, and the members that classify the call.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct BodyFacts {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bytes: Option<usize>,
    /// None if the body is too long or was cut off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sha256: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) language: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kernel: Option<String>,
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub(crate) purpose: Option<String>,
}

/// The result of a recorded call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ResultFacts {
    /// Number of the call's record; none if the call was folded.
    pub(crate) of: Option<u64>,
    pub(crate) kind: &'static str,
    #[serde(flatten)]
    pub(crate) end: CallEnd,
}

/// How a recorded call ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum CallEnd {
    /// The API answered, with success or an error.
    Answered(AnswerFacts),
    /// A program in the sandbox answered, or did not.
    Forwarded { status: Option<u16> },
    /// Nobody waited for the answer. Always true.
    GivenUp { given_up: bool },
}

/// The API's answer to a recorded call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct AnswerFacts {
    pub(crate) status: u16,
    pub(crate) took_ms: u64,
    /// The stable error code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) outcome: Option<CallOutcome>,
    /// Of the file that a request wrote.
    #[serde(flatten)]
    pub(crate) written: Option<WrittenFacts>,
}

/// A body that was hashed while it was stored.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct WrittenFacts {
    pub(crate) sha256: String,
    pub(crate) size: u64,
}

/// The result of a call of a program.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum CallOutcome {
    Shell { exit_code: i32, timed_out: bool },
    Code { status: CodeStatus, execution: String },
}
