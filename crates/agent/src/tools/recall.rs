//! `recall`: searches the journal by words, or shows one entry.

use sandyard_protocol::{JournalEntry, JournalRow, ModelPart};
use serde::Deserialize;
use serde_json::{Value, json};

use super::lanes::CallLane;
use super::{JournalCall, JournalStep, Tool, ToolOutcome, ToolRun};
use crate::arguments::{self, ArgumentForm, BadArguments};
use crate::journal::JournalError;
use crate::prompt;
use crate::tools::files;

/// Passages in one result.
const MAX_PASSAGES: usize = 8;
/// Bytes around a match.
const CONTEXT_BYTES: usize = 300;
/// Words of a query; further words are ignored.
const MAX_WORDS: usize = 12;

pub(super) const TOOL: Tool = Tool {
    form: &FORM,
    description: "
Finds what you have seen and done before in this job, also what is no longer shown to you: the task, what the person said, your answers, every result in full. With `query`, the passages that have most of its words, each with its number in the journal. With `number`, that entry itself, from line `first` on.",
    parameters,
    lane: |_| CallLane::Alone,
    run: ToolRun::Journal { run: |call| Box::pin(run(call)) },
};

const FORM: ArgumentForm = ArgumentForm {
    tool: "recall",
    members: &[("query", &["text", "q"]), ("number", &["entry", "id"]), ("first", &["first_line", "start"])],
    example: r#"{"query": "database password error"}"#,
};

fn parameters() -> Value {
    json!({
        "type": "object",
        "properties": {
            "query": { "type": "string", "description": "Words to find." },
            "number": { "type": "integer", "minimum": 1, "description": "Instead: the number of an entry." },
            "first": { "type": "integer", "minimum": 1, "description": "With `number`: the first line to show." },
        },
    })
}

/// The question of a call.
#[derive(Debug, PartialEq, Eq)]
enum RecallQuery {
    /// Passages that contain these words, in lower case.
    Words(Vec<String>),
    /// An entry, from line `first`.
    Entry { number: u64, first: u64 },
}

#[derive(Debug, Deserialize)]
struct RecallArguments {
    query: Option<String>,
    number: Option<u64>,
    first: Option<u64>,
}

async fn run(call: JournalCall<'_>) -> Result<JournalStep, JournalError> {
    let outcome = match read(call.arguments) {
        Ok(RecallQuery::Entry { number, first }) => {
            let row = call.journal.entry(number).await?;
            show(row.as_ref(), number, first)
        }
        Ok(RecallQuery::Words(words)) => {
            let mut search = JournalSearch::new(words);
            call.journal.read(|row| search.look_at(&row)).await?;
            search.outcome()
        }
        Err(error) => error.into(),
    };
    Ok(outcome.into())
}

fn read(text: &str) -> Result<RecallQuery, BadArguments> {
    let RecallArguments { query, number, first } = arguments::read(&FORM, text)?;
    if let Some(number) = number {
        return Ok(RecallQuery::Entry { number, first: first.unwrap_or(1).max(1) });
    }
    let query = query.unwrap_or_default().to_lowercase();
    let words: Vec<String> = query.split_whitespace().take(MAX_WORDS).map(str::to_owned).collect();
    if words.is_empty() {
        Err(FORM.refuse("give a `query` or a `number`"))
    } else {
        Ok(RecallQuery::Words(words))
    }
}

/// A search through the journal that keeps the best passages.
struct JournalSearch {
    words: Vec<String>,
    best: Vec<RecallPassage>,
}

struct RecallPassage {
    score: usize,
    number: u64,
    text: String,
}

impl JournalSearch {
    fn new(words: Vec<String>) -> Self {
        Self { words, best: Vec::new() }
    }

    /// Keeps the entry if it is among the best. Of equally good entries the newer one comes first.
    fn look_at(&mut self, row: &JournalRow) {
        let Some((title, text)) = describe(row) else { return };
        let lower = text.to_lowercase();
        let found: Vec<usize> = self.words.iter().filter_map(|word| lower.find(word.as_str())).collect();
        let whole = self.words.len() > 1 && lower.contains(&self.words.join(" "));
        let score = found.len() * 2 + usize::from(whole) * 3;
        if found.is_empty() || found.len() * 2 < self.words.len() {
            return;
        }
        let place = lower.find(&self.words.join(" ")).or(found.first().copied()).unwrap_or(0);
        let text = format!("[{}] {title}:\n{}", row.number, passage(&text, place));
        self.best.push(RecallPassage { score, number: row.number, text });
        self.best.sort_by_key(|passage| std::cmp::Reverse((passage.score, passage.number)));
        self.best.truncate(MAX_PASSAGES);
    }

    fn outcome(self) -> ToolOutcome {
        if self.best.is_empty() {
            return ToolOutcome::text("Nothing in the journal has these words. Try fewer or other ones.");
        }
        let texts: Vec<String> = self.best.into_iter().map(|passage| passage.text).collect();
        ToolOutcome::text(format!("{}\n\n`number` shows an entry whole.", texts.join("\n\n")))
    }
}

/// Shows one entry, from line `first`.
fn show(row: Option<&JournalRow>, number: u64, first: u64) -> ToolOutcome {
    let Some((row, (title, text))) = row.and_then(|row| Some((row, describe(row)?))) else {
        return ToolOutcome::failed(format!("The journal has no entry {number} that could be shown."));
    };
    let name = format!("Entry {number}, {title}");
    let mut shown = files::numbered(&name, &text, first);
    if let JournalEntry::StepEnded { parts, .. } = &row.entry {
        shown.parts.extend(parts.iter().filter(|part| matches!(part, ModelPart::Png { .. })).cloned());
    }
    shown
}

/// Title and text of an entry; `None` for entries that the model has no use for.
fn describe(row: &JournalRow) -> Option<(String, String)> {
    Some(match &row.entry {
        JournalEntry::Task { text } => ("the task".into(), text.clone()),
        JournalEntry::Said { text, .. } => ("said by the person".into(), text.clone()),
        JournalEntry::Answer { text, calls, .. } => {
            let calls: Vec<String> =
                calls.iter().map(|call| format!("{} {}", call.name, call.arguments)).collect();
            ("your answer".into(), format!("{text}\n{}", calls.join("\n")))
        }
        JournalEntry::StepEnded { parts, .. } => {
            let texts = parts.iter().filter_map(|part| match part {
                ModelPart::Text { text } => Some(text.as_str()),
                ModelPart::Png { .. } => None,
            });
            ("a result".into(), texts.collect::<Vec<_>>().join("\n"))
        }
        JournalEntry::Plan { items } => ("the plan".into(), prompt::plan(items)),
        JournalEntry::Asked { question, .. } => ("asked the person".into(), question.clone()),
        JournalEntry::Finished { summary } => ("the summary".into(), summary.clone()),
        JournalEntry::StepBegan { .. }
        | JournalEntry::Nudge { .. }
        | JournalEntry::Packed { .. }
        | JournalEntry::GaveUp { .. } => return None,
    })
}

/// The text around a match. The position comes from the lower-case text, whose length may differ, so it is approximate.
fn passage(text: &str, place: usize) -> String {
    let start = text.floor_char_boundary(place.min(text.len()).saturating_sub(CONTEXT_BYTES / 2));
    let end = text.floor_char_boundary((start + 2 * CONTEXT_BYTES).min(text.len()));
    let before = if start > 0 { "…" } else { "" };
    let after = if end < text.len() { "…" } else { "" };
    format!("{before}{}{after}", text[start..end].trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(number: u64, text: &str) -> JournalRow {
        let entry = JournalEntry::StepEnded {
            call: "c".into(),
            parts: vec![ModelPart::Text { text: text.into() }],
            failed: false,
            interrupted: false,
            took_ms: 0,
            files: Vec::new(),
        };
        JournalRow { number, at_ms: 0, incarnation: 1, entry }
    }

    fn text(outcome: &ToolOutcome) -> &str {
        match &outcome.parts[0] {
            ModelPart::Text { text } => text,
            ModelPart::Png { .. } => panic!("a picture"),
        }
    }

    #[test]
    fn passages_with_most_words_come_first_and_newer_ones_before_older() {
        let RecallQuery::Words(words) = read(r#"{"query": "Port Refused"}"#).unwrap() else {
            panic!("no words")
        };
        let mut search = JournalSearch::new(words);
        for (number, text) in
            [(3, "the port is 80"), (5, "connection REFUSED on port 80"), (7, "port refused"), (9, "x")]
        {
            search.look_at(&row(number, text));
        }
        let found = search.outcome();
        let numbers: Vec<&str> = text(&found).lines().filter(|line| line.starts_with('[')).collect();
        assert_eq!(numbers, ["[7] a result:", "[5] a result:", "[3] a result:"]);
    }

    #[test]
    fn an_entry_is_shown_from_a_line_on() {
        let long: String = (1..=2000).map(|line| format!("line {line}\n")).collect();
        let shown = show(Some(&row(4, &long)), 4, 1990);
        assert!(
            text(&shown).contains("1990\tline 1990") && text(&shown).ends_with("2000\tline 2000\n"),
            "{}",
            text(&shown)
        );
        assert!(show(None, 4, 1).failed);
    }

    #[test]
    fn nothing_to_find_is_refused() {
        assert!(read("{}").is_err());
        assert_eq!(read(r#"{"number": 3}"#).unwrap(), RecallQuery::Entry { number: 3, first: 1 });
    }

    #[test]
    fn letters_that_change_their_length_in_lower_case_do_no_harm() {
        let mut search = JournalSearch::new(vec!["ende".into()]);
        search.look_at(&row(1, &format!("{} ENDE", "İ".repeat(500))));
        assert!(text(&search.outcome()).contains("[1]"));
    }
}
