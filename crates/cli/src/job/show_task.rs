//! Shows a task on the terminal: the words of the model as they arrive, its tool calls and their results, in a line or two each.

use sandyard_api::{EventBody, JobState, ModelCallEvent, PlanItemView, ToolEvent};
use sandyard_protocol::{PlanState, Speaker};
use serde_json::Value;

use super::show::duration;
use crate::ui::{Tone, Ui, clean};

/// Shown characters of a call's arguments, or of the last line of its output.
const LINE_CHARS: usize = 100;
/// Arguments that describe a call best, the best first.
const TELLING: [&str; 8] = ["command", "path", "code", "query", "text", "question", "script", "actions"];

/// Shows the events of one task.
pub(super) struct Story {
    ui: Ui,
    /// True while the last line has no line break yet.
    in_words: bool,
}

impl Story {
    pub(super) fn new(ui: Ui) -> Self {
        Self { ui, in_words: false }
    }

    /// Ends an unfinished line of words.
    pub(super) fn before(&mut self, body: &EventBody) {
        let goes_on = matches!(
            body,
            EventBody::Model(ModelCallEvent { text: Some(_), .. })
                | EventBody::Frame(_)
                | EventBody::Usage(_)
        );
        if !goes_on && std::mem::take(&mut self.in_words) {
            self.ui.piece("\n");
        }
    }

    /// Shows the question of a task.
    pub(super) fn question(&self, state: JobState, question: &str) {
        self.ui.toned(&format!("? {question}"), Tone::Warning);
        self.ui.note(&format!("  {}; answer with `sandyard reply JOB TEXT`", state.as_str()));
    }

    /// Shows an event that only tasks have.
    pub(super) fn tell(&mut self, body: &EventBody) {
        match body {
            EventBody::Model(event) => self.model(event),
            EventBody::Step { tool, arguments, .. } => {
                let call = if told_apart(tool) { String::new() } else { call(arguments) };
                self.ui.note(format!("▸ {} {call}", clean(tool)).trim_end());
            }
            EventBody::Tool(event) => self.tool(event),
            EventBody::File { path } => self.ui.faint(&format!("  wrote {}", clean(path))),
            EventBody::Screenshot { .. } => self.ui.faint("  looked at the screen"),
            EventBody::Plan { items } => items.iter().for_each(|item| self.item(item)),
            EventBody::Said { text, by } => {
                let by = match by {
                    Speaker::Person => "person",
                    Speaker::Host => "host",
                };
                self.ui.toned(&format!("{by} said: {text}"), Tone::Strong);
            }
            _ => {}
        }
    }

    fn model(&mut self, event: &ModelCallEvent) {
        if let Some(text) = &event.text {
            if event.offset == Some(0) && self.in_words {
                self.ui.piece("\n");
            }
            self.in_words = true;
            self.ui.piece(text);
        }
        if let Some(error) = &event.error {
            self.ui.warn(&format!("the model gave no answer: {}", clean(error)));
        }
    }

    fn tool(&self, event: &ToolEvent) {
        if event.tool.as_deref().is_some_and(told_apart) && !event.failed && !event.interrupted {
            return;
        }
        let took = duration(i64::try_from(event.took_ms).unwrap_or(i64::MAX));
        let last = event.output.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let last = short(last);
        let (sign, tone) = match (event.interrupted, event.failed) {
            (true, _) => ("interrupted", Tone::Warning),
            (false, true) => ("failed", Tone::Bad),
            (false, false) => ("done", Tone::Faint),
        };
        self.ui.toned(&format!("  {sign} after {took}: {last}"), tone);
    }

    fn item(&self, item: &PlanItemView) {
        let sign = match item.state {
            PlanState::Done => "[x]",
            PlanState::Doing => "[>]",
            PlanState::Open => "[ ]",
        };
        self.ui.note(&format!("  {sign} {}", short(&item.text)));
    }
}

/// True if a call is shown in another way: a plan line by line, the summary at the end, a question as a question.
fn told_apart(tool: &str) -> bool {
    matches!(tool, "plan" | "finish" | "ask")
}

/// Returns the most descriptive part of a call's arguments.
fn call(arguments: &str) -> String {
    let members = serde_json::from_str::<Value>(arguments).ok();
    let telling = members.as_ref().and_then(|members| {
        TELLING.iter().find_map(|name| {
            members.get(name).map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        })
    });
    short(telling.as_deref().unwrap_or(arguments))
}

/// Returns the first line of a text, shortened.
fn short(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    let cut: String = line.chars().take(LINE_CHARS).collect();
    let rest = if cut.len() < text.trim().len() { " …" } else { "" };
    format!("{}{rest}", clean(&cut))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_told_by_what_tells_most_of_it() {
        assert_eq!(call(r#"{"timeout_s": 3, "command": "npm test"}"#), "npm test");
        assert_eq!(call(r#"{"language": "python", "code": "a = 1\nb = 2"}"#), "a = 1 …");
        assert_eq!(call("not json"), "not json");
        assert_eq!(call(r#"{"x": 1}"#), r#"{"x": 1}"#);
        assert_eq!(call("{\"command\": \"\u{1b}[2Jls\"}"), "{\"command\": \"[2Jls\"}".replace("[2J", " [2J"));
        assert!(short(&"x".repeat(500)).chars().count() <= LINE_CHARS + 2);
    }
}
