//! Kinds of audit records.

/// The kind of an audit record. [`AuditFacts::kind`](super::AuditFacts::kind) derives it from the facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AuditKind {
    Schedule,
    State,
    Cancel,
    Delete,
    Reply,
    Ticket,
    Download,
    Open,
    File,
    Shell,
    Code,
    Kernel,
    Signal,
    Extend,
    Gui,
    Result,
    Egress,
    Model,
    Secret,
    Step,
    StepEnded,
    Asked,
    Finished,
    Workspace,
    Export,
    Artifact,
    Start,
}

impl AuditKind {
    /// Returns the `kind` member of a record.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::State => "state",
            Self::Cancel => "cancel",
            Self::Delete => "delete",
            Self::Reply => "reply",
            Self::Ticket => "ticket",
            Self::Download => "download",
            Self::Open => "open",
            Self::File => "file",
            Self::Shell => "shell",
            Self::Code => "code",
            Self::Kernel => "kernel",
            Self::Signal => "signal",
            Self::Extend => "extend",
            Self::Gui => "gui",
            Self::Result => "result",
            Self::Egress => "egress",
            Self::Model => "model",
            Self::Secret => "secret",
            Self::Step => "step",
            Self::StepEnded => "step_ended",
            Self::Asked => "asked",
            Self::Finished => "finished",
            Self::Workspace => "workspace",
            Self::Export => "export",
            Self::Artifact => "artifact",
            Self::Start => "start",
        }
    }

    /// True if a job can cause any number of such records, so that later ones are folded into one record.
    pub(crate) fn may_be_many(self) -> bool {
        !matches!(
            self,
            Self::Schedule
                | Self::State
                | Self::Cancel
                | Self::Delete
                | Self::Export
                | Self::Artifact
                | Self::Start
        )
    }
}
