//! A job's terminal as an asciicast of version 2, made from its events: output as it came, and the commands of a task with what
//! they answered.
//!
//! Nothing is recorded for this: events and output are kept anyway. The cast is a stream, so its size costs no memory.

use std::pin::Pin;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use serde_json::{Value, json};

use super::model::CommittedEvent;
use super::{AppError, JobAccess, Yard};
use crate::auth::AccessScope;

/// A cast, line by line.
pub type TerminalCast = Pin<Box<dyn Stream<Item = Result<Bytes, std::io::Error>> + Send>>;

/// Size of the terminal in which output is shown. Nothing tells its real one: a job's output goes to a pipe.
const COLUMNS: u32 = 100;
const ROWS: u32 = 30;
/// Bytes of output in one cast, more than anybody watches.
const OUTPUT_BYTES: usize = 16 * 1024 * 1024;
/// Tools whose calls are commands.
const COMMAND_TOOLS: [&str; 2] = ["shell", "code"];

impl Yard {
    /// Returns what is committed so far as a cast.
    pub async fn terminal_cast(&self, job: &JobAccess) -> Result<TerminalCast, AppError> {
        job.require(AccessScope::ReadJobs)?;
        let row = self.row(job.id()).await?;
        let begin_ms = row.started_ms.unwrap_or(row.created_ms);
        let title = row.name.clone().unwrap_or_else(|| row.id.to_string());
        let head = json!({
            "version": 2, "width": COLUMNS, "height": ROWS, "timestamp": begin_ms.div_euclid(1000), "title": title,
        });
        let mut lines = CastLines { begin_ms, left: OUTPUT_BYTES };
        // Ids have no gap, so this is where the stream of a job that still runs ends.
        let committed = usize::try_from(row.last_event).unwrap_or(usize::MAX);
        let events = self.events(job, 0).await?.take(committed).filter_map(move |event| {
            std::future::ready(match event {
                Ok(event) => lines.of(&event).map(|line| Ok(line.into())),
                Err(error) => Some(Err(std::io::Error::other(error))),
            })
        });
        let head = futures_util::stream::iter([Ok(Bytes::from(format!("{head}\n")))]);
        Ok(Box::pin(head.chain(events)))
    }
}

/// Makes lines of events.
struct CastLines {
    begin_ms: i64,
    /// Bytes of output that may still come.
    left: usize,
}

impl CastLines {
    /// The line of an event; `None` if it shows nothing in a terminal.
    fn of(&mut self, event: &CommittedEvent) -> Option<String> {
        let text = |name: &str| event.data.get(name).and_then(Value::as_str).unwrap_or_default();
        let is_command = COMMAND_TOOLS.contains(&text("tool"));
        let shown = match event.kind.as_str() {
            "stdout" | "stderr" => text("text").to_owned(),
            "step" if is_command => format!("\u{1b}[1;34m$\u{1b}[0m {}\n", command(text("arguments"))),
            "tool" if is_command => with_end_of_line(text("output")),
            _ => return None,
        };
        if shown.is_empty() || self.left == 0 {
            return None;
        }
        let shown = if shown.len() > self.left {
            self.left = 0;
            "\n[… the rest of the output is left out here …]\n".to_owned()
        } else {
            self.left -= shown.len();
            shown
        };
        let seconds = event.at_ms.saturating_sub(self.begin_ms).max(0) as f64 / 1000.0;
        Some(format!("{}\n", json!([seconds, "o", shown.replace("\r\n", "\n").replace('\n', "\r\n")])))
    }
}

/// The command or code in the arguments of a call; the arguments themselves if they were cut.
fn command(arguments: &str) -> String {
    let parsed: Value = serde_json::from_str(arguments).unwrap_or_default();
    let text = ["command", "code"].into_iter().find_map(|name| parsed.get(name)?.as_str());
    text.unwrap_or(arguments).trim_end().to_owned()
}

fn with_end_of_line(output: &str) -> String {
    if output.is_empty() || output.ends_with('\n') { output.to_owned() } else { format!("{output}\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: &str, at_ms: i64, data: Value) -> CommittedEvent {
        CommittedEvent { id: 1, kind: kind.to_owned(), at_ms, data }
    }

    fn lines() -> CastLines {
        CastLines { begin_ms: 1000, left: OUTPUT_BYTES }
    }

    #[test]
    fn output_and_commands_become_lines_with_times() {
        let mut cast = lines();
        let line = cast.of(&event("stdout", 2500, json!({"text": "a\nb\r\n"}))).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&line).unwrap(), json!([1.5, "o", "a\r\nb\r\n"]));
        let step = json!({"tool": "shell", "arguments": r#"{"command": "ls -l"}"#, "call": "1"});
        assert!(cast.of(&event("step", 1000, step)).unwrap().contains("ls -l\\r\\n"));
        let tool = json!({"tool": "shell", "output": "total 0", "call": "1"});
        assert!(cast.of(&event("tool", 900, tool)).unwrap().starts_with("[0.0,"));
        for (kind, data) in
            [("note", json!({"text": "no"})), ("step", json!({"tool": "plan", "arguments": "{}"}))]
        {
            assert_eq!(cast.of(&event(kind, 1000, data)), None, "{kind}");
        }
    }

    #[test]
    fn a_cast_is_bounded_and_says_so() {
        let mut cast = CastLines { left: 3, ..lines() };
        let output = event("stdout", 1000, json!({"text": "four"}));
        assert!(cast.of(&output).unwrap().contains("left out"));
        assert_eq!(cast.of(&output), None);
    }
}
