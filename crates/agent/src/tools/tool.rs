//! The types of an entry of the table: how a tool runs, its inputs, and its result.

use std::pin::Pin;
use std::sync::Arc;

use sandyard_protocol::{JournalEntry, ModelPart, TextOrigin};
use serde_json::Value;

use super::lanes::CallLane;
use crate::arguments::{ArgumentForm, BadArguments};
use crate::journal::{JournalClient, JournalError, OutcomeText};
use crate::keeper::{KeeperClient, ToolError};
use crate::positions::OutputPositions;

/// The result of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ToolOutcome {
    /// The whole result as the journal stores it. The model's window may take less.
    pub(crate) parts: Vec<ModelPart>,
    pub(crate) failed: bool,
    /// True if the call was cut off and may have been carried out in part.
    pub(crate) interrupted: bool,
    /// Files that the call wrote, relative to the workspace.
    pub(crate) files: Vec<String>,
    /// Texts that are kept for recall: whole outputs, versions of files.
    pub(crate) kept: Vec<OutcomeText>,
}

/// The inputs of a tool of the machine, besides its arguments.
#[derive(Debug, Clone)]
pub(crate) struct ToolContext {
    pub(crate) keeper: KeeperClient,
    /// The journal number of the step. Processes in the machine carry it, so that a later loop finds them.
    pub(crate) step: u64,
    pub(crate) positions: Arc<OutputPositions>,
}

/// A call of a tool that uses nothing but the journal.
pub(crate) struct JournalCall<'a> {
    /// The arguments as the model wrote them.
    pub(crate) arguments: &'a str,
    /// True if this call put a question to a person, who has answered since.
    pub(crate) is_answered: bool,
    /// True if another call of the same answer failed.
    pub(crate) has_failed_sibling: bool,
    /// Numbers of earlier results that are whole, but the newest.
    pub(crate) maskable: Vec<u64>,
    /// For reading: entries are written by the loop, from the returned [`JournalStep`].
    pub(crate) journal: &'a mut JournalClient,
}

/// The entries that the loop writes for a call that uses the journal.
pub(crate) enum JournalStep {
    /// The call is over. `entry` is written before its result.
    Over { entry: Option<JournalEntry>, outcome: ToolOutcome },
    /// The entry is written and the call stays open: a person's answer or the end of the task follows.
    Open(JournalEntry),
}

type ToolFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type JournalFuture<'a> = Pin<Box<dyn Future<Output = Result<JournalStep, JournalError>> + Send + 'a>>;
/// Runs a call that uses nothing but the journal. It may run again after a crash, so it must not change anything itself.
pub(crate) type JournalRun = for<'a> fn(JournalCall<'a>) -> JournalFuture<'a>;

/// The function that runs a tool, and the place where it acts.
#[derive(Clone, Copy)]
pub(crate) enum ToolRun {
    /// In the machine, through keeper. A call runs at most once.
    Machine {
        run: fn(ToolContext, String) -> ToolFuture<ToolOutcome>,
        /// Describes a call that was cut off, for the model, without running any part again.
        after_restart: fn(ToolContext) -> ToolFuture<String>,
    },
    /// On the journal alone. A call may run again after a crash.
    Journal { run: JournalRun },
}

/// An entry of the table of tools.
pub(crate) struct Tool {
    pub(crate) form: &'static ArgumentForm,
    pub(crate) description: &'static str,
    /// The JSON schema of the arguments. Recordings are compared by it.
    pub(crate) parameters: fn() -> Value,
    /// What a call with these arguments touches. Arguments that can't be read are rejected later, by `run`.
    pub(crate) lane: fn(&str) -> CallLane,
    pub(crate) run: ToolRun,
}

impl ToolOutcome {
    /// A successful result with one text.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self { parts: vec![ModelPart::Text { text: text.into() }], ..Self::default() }
    }

    /// A text about a failure.
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self { failed: true, ..Self::text(text) }
    }

    /// The same with a text that is kept for recall.
    pub(crate) fn keeping(mut self, origin: TextOrigin, path: &str, bytes: Option<Vec<u8>>) -> Self {
        self.kept.extend(bytes.map(|bytes| OutcomeText { origin, path: path.to_owned(), bytes }));
        self
    }

    /// A text about a call that may have been carried out in part.
    pub(crate) fn interrupted(text: impl Into<String>) -> Self {
        Self { interrupted: true, ..Self::failed(text) }
    }
}

impl From<BadArguments> for ToolOutcome {
    fn from(error: BadArguments) -> Self {
        Self::failed(error.0)
    }
}

impl From<BadArguments> for JournalStep {
    fn from(error: BadArguments) -> Self {
        ToolOutcome::from(error).into()
    }
}

impl From<ToolOutcome> for JournalStep {
    fn from(outcome: ToolOutcome) -> Self {
        Self::Over { entry: None, outcome }
    }
}

impl From<ToolError> for ToolOutcome {
    fn from(error: ToolError) -> Self {
        match error {
            ToolError::Refused(error) => Self::failed(format!("{error}.")),
            ToolError::Unreachable => Self::failed("The machine does not answer; nothing was done."),
            ToolError::TooLong => {
                Self::failed("This is too long for one call; do it in several. Nothing was done.")
            }
            ToolError::Lost | ToolError::Unexpected => Self::interrupted(
                "The connection to the machine was lost in the middle, so nobody knows how far this came. Look before you do it again.",
            ),
        }
    }
}
