//! The table of tools: what each is called, what a client reads about it, and what it does.
//!
//! A tool's words are its interface: they are all that a model knows of it. Its arguments are those of the API wherever it
//! passes them on, so that the two are learnt once.

mod desktop;
mod files;
mod jobs;
mod programs;

use std::pin::Pin;
use std::sync::{Arc, LazyLock};

use rmcp::model::{Tool, ToolAnnotations};
use sandyard_api::ApiError;
use serde_json::{Map, Value, json};

use super::answer::ToolAnswer;
use super::arguments::Arguments;
use super::call::{Api, Call, Reply};

/// What a tool does to the world, for clients that ask a person first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// Looks only.
    Reads,
    /// Adds something and leaves the rest alone.
    Adds,
    /// May change or end what is there.
    Changes,
}

/// One tool.
pub(super) struct ToolEntry {
    name: &'static str,
    title: &'static str,
    description: &'static str,
    effect: Effect,
    /// The properties of its arguments, as JSON Schema.
    properties: fn() -> Value,
    required: &'static [&'static str],
    run: for<'a> fn(Desk<'a>, Arguments) -> Work<'a>,
}

/// A tool at work.
type Work<'a> = Pin<Box<dyn Future<Output = Result<ToolAnswer, ApiError>> + Send + 'a>>;

/// What a tool works with.
#[derive(Clone, Copy)]
pub(super) struct Desk<'a> {
    /// The way to the server.
    pub(super) api: &'a dyn Api,
    /// Where the client's browser finds it, without a slash at the end.
    pub(super) address: &'a str,
}

impl Desk<'_> {
    async fn send(&self, call: Call) -> Result<Reply, ApiError> {
        self.api.send(call).await
    }
}

/// All of them, in the order in which a client lists them.
static ENTRIES: &[&[ToolEntry]] = &[jobs::ENTRIES, programs::ENTRIES, files::ENTRIES, desktop::ENTRIES];

/// As the protocol describes them.
static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| entries().map(ToolEntry::describe).collect());

fn entries() -> impl Iterator<Item = &'static ToolEntry> {
    ENTRIES.iter().flat_map(|group| group.iter())
}

/// What a client is told of the tools.
pub(super) fn tools() -> &'static [Tool] {
    &TOOLS
}

/// The tool of that name.
pub(super) fn find(name: &str) -> Option<&'static ToolEntry> {
    entries().find(|entry| entry.name == name)
}

impl ToolEntry {
    fn describe(&self) -> Tool {
        let schema = json!({
            "type": "object",
            "properties": (self.properties)(),
            "required": self.required,
            "additionalProperties": false,
        });
        let Value::Object(schema) = schema else { return Tool::default() };
        let effect = self.effect;
        let hints = ToolAnnotations::with_title(self.title)
            .read_only(effect == Effect::Reads)
            .destructive(effect == Effect::Changes)
            .open_world(false);
        Tool::new(self.name, self.description, Arc::new(schema))
            .with_title(self.title)
            .with_annotations(hints)
    }

    /// Does what a client asks.
    pub(super) async fn call(
        &self,
        desk: Desk<'_>,
        given: Map<String, Value>,
    ) -> Result<ToolAnswer, ApiError> {
        let properties = (self.properties)();
        let known: Vec<&str> =
            properties.as_object().into_iter().flat_map(Map::keys).map(String::as_str).collect();
        (self.run)(desk, Arguments::read(given, &known)?).await
    }
}

/// The property that nearly every tool has.
fn job_id() -> Value {
    json!({"type": "string", "description": "The job, as schedule_job or list_jobs names it"})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_is_described_once_and_whole() {
        let names: std::collections::BTreeSet<_> = tools().iter().map(|tool| tool.name.clone()).collect();
        assert_eq!(names.len(), tools().len());
        for entry in entries() {
            let tool = entry.describe();
            assert!(entry.description.len() > 60 && entry.description.ends_with('.'), "{}", entry.name);
            let properties = tool.input_schema["properties"].as_object().unwrap();
            for (name, schema) in properties {
                assert!(schema["description"].is_string(), "{}.{name} is not explained", entry.name);
            }
            for needed in entry.required {
                assert!(properties.contains_key(*needed), "{}.{needed}", entry.name);
            }
        }
    }

    #[test]
    fn what_a_client_reads_is_what_was_reviewed() {
        insta::assert_json_snapshot!("tools", tools());
    }
}
