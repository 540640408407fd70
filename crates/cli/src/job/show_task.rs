//! Shows a task on the terminal: the words of the model as they arrive, its tool calls and their results, in a line or two each.

use std::collections::HashMap;

use sandyard_api::{EventBody, ModelCallEvent, PlanItemView, ToolEvent};
use sandyard_protocol::{ModelFailureCode, PlanState, Speaker};

use super::call_words::call_words;
use super::spans::duration;
use crate::ui::{Tone, Ui, clean, short_id};

/// Shown characters of a call, or of the last line of its output.
const LINE_CHARS: usize = 100;
/// Calls whose words are remembered until they end; models make fewer at once.
const OPEN_CALLS: usize = 256;

/// Shows the events of one task.
pub(super) struct Story {
    ui: Ui,
    job: String,
    /// True while the last line has no line break yet.
    in_words: bool,
    /// The words of calls that have begun, by their ids.
    calls: HashMap<String, String>,
}

impl Story {
    pub(super) fn new(ui: Ui, job: &str) -> Self {
        Self { ui, job: job.to_owned(), in_words: false, calls: HashMap::new() }
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

    /// Shows the question of a task. At a terminal a prompt follows.
    pub(super) fn question(&self, question: &str) {
        self.ui.toned(&format!("? {question}"), Tone::Warning);
        if !self.ui.is_interactive() {
            self.ui.note(&format!("  waiting; answer with `sandyard reply {} TEXT`", short_id(&self.job)));
        }
    }

    /// Shows an event that only tasks have.
    pub(super) fn tell(&mut self, body: &EventBody) {
        match body {
            EventBody::Model(event) => self.model(event),
            EventBody::Step { call, tool, arguments } => self.step(call, tool, arguments),
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
        // Every other failure ends the task or asks a person, with the same words.
        if let Some(error) =
            event.error.as_ref().filter(|_| event.code == Some(ModelFailureCode::ContextTooLong))
        {
            self.ui.faint(&format!("· the model is asked again with less: {}", clean(error)));
        }
    }

    fn step(&mut self, call: &str, tool: &str, arguments: &str) {
        let words = call_words(tool, arguments);
        let words = if told_apart(tool) { clean(tool) } else { format!("{} {}", clean(tool), short(&words)) };
        self.ui.note(format!("▸ {words}").trim_end());
        if self.calls.len() < OPEN_CALLS {
            self.calls.insert(call.to_owned(), words);
        }
    }

    fn tool(&mut self, event: &ToolEvent) {
        let words = self.calls.remove(&event.call);
        if event.tool.as_deref().is_some_and(told_apart) && !event.failed && !event.interrupted {
            return;
        }
        let took = duration(i64::try_from(event.took_ms).unwrap_or(i64::MAX));
        let (sign, tone) = match (event.interrupted, event.failed) {
            (true, _) => ("interrupted", Tone::Warning),
            (false, true) => ("failed", Tone::Bad),
            (false, false) => ("done", Tone::Faint),
        };
        let named = words.or_else(|| event.tool.as_deref().map(clean));
        let named = named.map(|words| format!(" {words}")).unwrap_or_default();
        let last = event.output.lines().rev().find(|line| !line.trim().is_empty());
        let last = last.map(|line| format!(": {}", short(line))).unwrap_or_default();
        self.ui.toned(&format!("  {sign}{named} after {took}{last}"), tone);
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
    fn a_line_is_cut_and_cleaned() {
        assert_eq!(short("a = 1\nb = 2"), "a = 1 …");
        assert_eq!(short("\u{1b}[2Jls"), " [2Jls");
        assert!(short(&"x".repeat(500)).chars().count() <= LINE_CHARS + 2);
    }
}
