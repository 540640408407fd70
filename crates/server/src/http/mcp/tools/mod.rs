//! The table of tools: the name, the description and the work of each.
//!
//! A tool's description is its interface: a model knows nothing else of it. Arguments that a tool passes on have the names
//! that the API gives them.

mod desktop;
mod files;
mod jobs;
mod kernels;
mod memory;
mod ports;
mod programs;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};

use rmcp::model::{Tool, ToolAnnotations};
use sandyard_api::ApiError;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::answer::ToolAnswer;
use super::arguments::Arguments;
use super::call::{ApiCall, ApiReply, ApiTransport};

/// The effect of a tool, for clients that ask a person first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ToolEffect {
    /// The tool changes nothing.
    Reads,
    /// The tool adds something and changes nothing else.
    Adds,
    /// The tool may change or end something.
    Changes,
}

/// A row of the table of tools: the texts that clients see, and the function that runs.
pub(super) struct ToolEntry {
    name: &'static str,
    title: &'static str,
    description: &'static str,
    effect: ToolEffect,
    /// The properties of its arguments, as JSON Schema.
    properties: fn() -> Value,
    required: &'static [&'static str],
    /// The schema of its structured answer.
    output: fn() -> Map<String, Value>,
    run: for<'a> fn(McpToolContext<'a>, Arguments) -> ToolWork<'a>,
}

/// A tool at work.
type ToolWork<'a> = Pin<Box<dyn Future<Output = Result<ToolAnswer, ApiError>> + Send + 'a>>;

/// The context of a tool's call.
#[derive(Clone, Copy)]
pub(super) struct McpToolContext<'a> {
    /// The client of the API.
    pub(super) api: &'a dyn ApiTransport,
    /// The server's address for the client's browser, without a slash at the end.
    pub(super) address: &'a str,
}

impl McpToolContext<'_> {
    async fn send(&self, call: ApiCall) -> Result<ApiReply, ApiError> {
        self.api.send(call).await
    }
}

/// All tools, in the order in which a client lists them.
static ENTRIES: &[&[ToolEntry]] = &[
    jobs::ENTRIES,
    memory::ENTRIES,
    programs::ENTRIES,
    kernels::ENTRIES,
    files::ENTRIES,
    desktop::ENTRIES,
    ports::ENTRIES,
];

/// All tools, as the protocol describes them.
static TOOLS: LazyLock<Vec<Tool>> = LazyLock::new(|| entries().map(ToolEntry::describe).collect());

fn entries() -> impl Iterator<Item = &'static ToolEntry> {
    ENTRIES.iter().flat_map(|group| group.iter())
}

/// The tools as a client sees them.
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
            .read_only(effect == ToolEffect::Reads)
            .destructive(effect == ToolEffect::Changes)
            .open_world(false);
        Tool::new(self.name, self.description, Arc::new(schema))
            .with_title(self.title)
            .with_annotations(hints)
            .with_raw_output_schema(Arc::new((self.output)()))
    }

    /// Runs the tool. Rejects arguments that its schema does not name.
    pub(super) async fn call(
        &self,
        context: McpToolContext<'_>,
        given: Map<String, Value>,
    ) -> Result<ToolAnswer, ApiError> {
        let properties = (self.properties)();
        let known: Vec<&str> =
            properties.as_object().into_iter().flat_map(Map::keys).map(String::as_str).collect();
        (self.run)(context, Arguments::read(given, &known)?).await
    }
}

/// The JSON Schema of a view of the API, with the types that it refers to.
fn output_schema<T: ToSchema>() -> Map<String, Value> {
    let mut referred = Vec::new();
    T::schemas(&mut referred);
    let types: BTreeMap<String, _> = referred.into_iter().collect();
    let whole = json!({"view": T::schema(), "types": types}).to_string();
    // The API's document keeps its types elsewhere.
    let whole = whole.replace("#/components/schemas/", "#/$defs/");
    let mut whole: Value = serde_json::from_str(&whole).unwrap_or_default();
    let types = whole["types"].take();
    let Value::Object(mut schema) = whole["view"].take() else { return Map::new() };
    schema.insert("$defs".to_owned(), types);
    schema
}

/// The property that nearly every tool has.
fn job_id() -> Value {
    json!({"type": "string", "description": "The job: its id, as schedule_job or list_jobs names it, or at least the first 4 letters of it"})
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
            let output = (entry.output)();
            assert_eq!(output["type"], "object", "{}: clients refuse any other", entry.name);
            let text = serde_json::to_string(&output).unwrap();
            let place = Value::Object(output);
            for reference in text.split("\"#/").skip(1).filter_map(|rest| rest.split('"').next()) {
                assert!(place.pointer(&format!("/{reference}")).is_some(), "{}: {reference}", entry.name);
            }
            for needed in entry.required {
                assert!(properties.contains_key(*needed), "{}.{needed}", entry.name);
            }
        }
    }

    #[test]
    fn the_page_about_this_protocol_lists_every_tool_and_no_other() {
        let page = include_str!("../../../../../../docs/MCP.md");
        let table = page.split("## Tools").nth(1).and_then(|rest| rest.split("\n\nTo work").next()).unwrap();
        let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
        let listed: Vec<&str> =
            rows.flat_map(|row| row.split([',', '`', ' '])).filter(|name| !name.is_empty()).collect();
        let mut sorted = listed.clone();
        sorted.sort_unstable();
        let mut names: Vec<&str> = entries().map(|entry| entry.name).collect();
        names.sort_unstable();
        assert_eq!(sorted, names);
    }

    #[test]
    fn what_a_client_reads_is_what_was_reviewed() {
        insta::assert_json_snapshot!("tools", tools());
    }
}
