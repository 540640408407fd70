//! What the model can call. Each tool is one file: what the model reads about it, its arguments, what it does, its words.
//!
//! `TOOLS` is the table. Tools that act on the machine run by themselves and may run at the same time (`lanes`); those
//! that belong to the journal are run by the session (`step`).

pub(crate) mod ask;
mod code;
mod files;
pub(crate) mod finish;
mod gui;
pub(crate) mod lanes;
pub(crate) mod output;
pub(crate) mod plan;
pub(crate) mod recall;
pub(crate) mod shell;

use std::pin::Pin;
use std::sync::Arc;

use sandyard_protocol::{ModelPart, ToolSpec};
use serde_json::Value;

use crate::arguments::{BadArguments, Form};
use crate::keeper::{Keeper, ToolError};
use crate::tools::shell::Places;

/// What a call came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// What the model is shown, whole.
    pub(crate) parts: Vec<ModelPart>,
    /// Whether it failed.
    pub(crate) failed: bool,
    /// Whether nobody knows how far it came.
    pub(crate) interrupted: bool,
    /// Files that it wrote.
    pub(crate) files: Vec<String>,
}

/// What a tool of the machine works with.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    /// Does the work.
    pub(crate) keeper: Keeper,
    /// The journal number of the step, which names it in the machine.
    pub(crate) step: u64,
    /// How far the output of commands that go on was read.
    pub(crate) places: Arc<Places>,
}

type Running<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Who runs a tool.
#[derive(Clone, Copy)]
pub(crate) enum Runs {
    /// Itself, in the machine.
    Machine {
        /// Does it.
        run: fn(Context, String) -> Running<Outcome>,
        /// Says what is known of a call that was cut off, without doing any of it.
        cut_off: fn(Context) -> Running<String>,
    },
    /// The session: it is about the journal.
    Session,
}

/// One tool.
pub(crate) struct Tool {
    pub(crate) form: &'static Form,
    pub(crate) description: &'static str,
    pub(crate) parameters: fn() -> Value,
    pub(crate) runs: Runs,
}

/// All tools, in the order in which the model reads of them.
pub(crate) const TOOLS: [Tool; 8] =
    [shell::TOOL, code::TOOL, files::TOOL, gui::TOOL, plan::TOOL, recall::TOOL, ask::TOOL, finish::TOOL];

/// A tool by its name.
pub(crate) fn find(name: &str) -> Option<&'static Tool> {
    static ALL: [Tool; 8] = TOOLS;
    ALL.iter().find(|tool| tool.form.tool == name)
}

/// All tools, as the model reads of them.
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

/// The answer to a call of something that is no tool.
pub(crate) fn unknown(name: &str) -> Outcome {
    let names: Vec<&str> = TOOLS.iter().map(|tool| tool.form.tool).collect();
    Outcome::failed(format!("There is no tool `{name}`. There are: {}.", names.join(", ")))
}

impl Outcome {
    /// Words.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self { parts: vec![ModelPart::Text { text: text.into() }], ..Self::default() }
    }

    /// Words about a failure.
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self { failed: true, ..Self::text(text) }
    }

    /// Words about something of which nobody knows how far it came.
    pub(crate) fn interrupted(text: impl Into<String>) -> Self {
        Self { interrupted: true, ..Self::failed(text) }
    }
}

impl From<BadArguments> for Outcome {
    fn from(error: BadArguments) -> Self {
        Self::failed(error.0)
    }
}

impl From<ToolError> for Outcome {
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
}
