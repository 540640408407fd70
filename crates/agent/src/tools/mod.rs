//! The tools that the model can call. Each tool is one file: its description for the model, its arguments, its run function and
//! its results.
//!
//! `TOOLS` is the table. An entry carries everything that the loop needs to know about a tool, so a new tool is one file and
//! one line of the table. The loop does not branch on names; only `stuck` knows how a call waits for a command.

mod ask;
mod code;
mod files;
mod finish;
mod gui;
pub(crate) mod lanes;
mod output;
mod plan;
mod recall;
mod shell;

use std::pin::Pin;
use std::sync::Arc;

use sandyard_protocol::{JournalEntry, ModelPart, ToolSpec};
use serde_json::Value;

use crate::arguments::{ArgumentForm, BadArguments};
use crate::journal::{JournalClient, JournalError};
use crate::keeper::{KeeperClient, ToolError};
use crate::positions::OutputPositions;
use crate::tools::lanes::CallLane;

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
}

/// What a tool of the machine works with.
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
    /// For reading: entries are written by the loop, from the returned [`JournalStep`].
    pub(crate) journal: &'a mut JournalClient,
}

/// What the loop writes for a call that uses the journal.
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

/// How a tool runs.
#[derive(Clone, Copy)]
pub(crate) enum ToolRun {
    /// In the machine, through keeper. A call runs at most once.
    Machine {
        run: fn(ToolContext, String) -> ToolFuture<ToolOutcome>,
        /// Says for the model what is known about a call that was cut off, without running any of it again.
        after_restart: fn(ToolContext) -> ToolFuture<String>,
    },
    /// On the journal.
    Journal { run: JournalRun },
}

/// One tool.
pub(crate) struct Tool {
    pub(crate) form: &'static ArgumentForm,
    pub(crate) description: &'static str,
    /// The JSON schema of the arguments. Recordings are compared by it.
    pub(crate) parameters: fn() -> Value,
    /// What a call with these arguments touches. Arguments that can't be read are rejected later, by `run`.
    pub(crate) lane: fn(&str) -> CallLane,
    pub(crate) run: ToolRun,
}

/// All tools, in the order in which the model reads about them.
static TOOLS: [Tool; 8] =
    [shell::TOOL, code::TOOL, files::TOOL, gui::TOOL, plan::TOOL, recall::TOOL, ask::TOOL, finish::TOOL];

fn find(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| tool.form.tool == name)
}

/// How the named tool runs; `None` if there is no such tool.
pub(crate) fn run_of(name: &str) -> Option<ToolRun> {
    find(name).map(|tool| tool.run)
}

/// The tools as the model reads about them.
pub fn specs() -> Vec<ToolSpec> {
    TOOLS
        .iter()
        .map(|tool| ToolSpec {
            name: tool.form.tool.to_owned(),
            description: tool.description.trim().to_owned(),
            parameters: (tool.parameters)(),
        })
        .collect()
}

/// The result of a call whose tool does not exist.
pub(crate) fn unknown(name: &str) -> ToolOutcome {
    let names: Vec<&str> = TOOLS.iter().map(|tool| tool.form.tool).collect();
    ToolOutcome::failed(format!("There is no tool `{name}`. There are: {}.", names.join(", ")))
}

impl ToolOutcome {
    /// A text.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self { parts: vec![ModelPart::Text { text: text.into() }], ..Self::default() }
    }

    /// A text about a failure.
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self { failed: true, ..Self::text(text) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_says_what_it_takes_and_its_example_is_right() {
        for (tool, spec) in TOOLS.iter().zip(specs()) {
            let properties = spec.parameters["properties"].as_object().expect("an object");
            for (member, _) in tool.form.members {
                assert!(properties.contains_key(*member), "{}: {member}", spec.name);
            }
            assert_eq!(properties.len(), tool.form.members.len(), "{}", spec.name);
            let example: Value = serde_json::from_str(tool.form.example).expect("JSON");
            for member in example.as_object().expect("an object").keys() {
                assert!(properties.contains_key(member), "{}: {member}", spec.name);
            }
            assert!(spec.description.len() > 100, "{}", spec.name);
            assert!(find(&spec.name).is_some());
        }
        assert!(find("shel").is_none());
    }

    #[test]
    fn calls_that_use_the_journal_run_alone() {
        for tool in &TOOLS {
            let is_alone = (tool.lane)("{}") == CallLane::Alone;
            assert_eq!(is_alone, matches!(tool.run, ToolRun::Journal { .. }), "{}", tool.form.tool);
        }
    }
}
