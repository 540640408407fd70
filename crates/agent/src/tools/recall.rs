//! `recall`: asks the host for passages of everything that the job has seen, or shows one entry.
//!
//! A host that can't answer, because it has no reader, leaves the loop to search its journal word by word.

use sandyard_memory::plan_text;
use sandyard_protocol::{
    JournalEntry, JournalPassage, JournalPassages, JournalQuestion, JournalRow, ModelPart,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::lanes::CallLane;
use super::{JournalCall, JournalStep, Tool, ToolOutcome, ToolRun};
use crate::arguments::{self, ArgumentForm, BadArguments};
use crate::journal::{JournalClient, JournalError};
use crate::tools::files;

/// Passages in one result.
const MAX_PASSAGES: u32 = 8;
/// Bytes of one passage in a result; a version of a file may be long.
const PASSAGE_BYTES: usize = 14 * 1024;
/// The origins of texts.
const SCOPES: [&str; 7] = ["person", "model", "call", "result", "file", "cell", "note"];
/// Bytes around a match.
const CONTEXT_BYTES: usize = 300;
/// Words of a query; further words are ignored.
const MAX_WORDS: usize = 12;

pub(super) const TOOL: Tool = Tool {
    form: &FORM,
    description: "
Finds what you have seen and done before in this job, also what is no longer shown to you: the task, what the person said, your answers, every result in full, every version of a file that you read or wrote.
- `query`: the passages that answer it best, by words and by meaning, each with its number in the journal. `scope` limits them to some origins, `path` to one file, `before` and `after` to a part of the journal; so `{\"query\": \"port\", \"scope\": [\"person\"]}` is what the person said about ports.
- `path` alone, or with `before`: the file as it was then.
- `number`: that entry itself, whole, from line `first` on.",
    parameters,
    lane: |_| CallLane::Alone,
    run: ToolRun::Journal { run: |call| Box::pin(run(call)) },
};

const FORM: ArgumentForm = ArgumentForm {
    tool: "recall",
    members: &[
        ("query", &["text", "q", "question"]),
        ("scope", &["origins", "origin"]),
        ("path", &["file"]),
        ("before", &[]),
        ("after", &[]),
        ("number", &["entry", "id"]),
        ("first", &["first_line", "start"]),
    ],
    example: r#"{"query": "database password error"}"#,
};

fn parameters() -> Value {
    json!({
        "type": "object",
        "properties": {
            "query": { "type": "string", "description": "A question, words, an identifier or an error message." },
            "scope": { "type": "array", "items": { "type": "string", "enum": SCOPES }, "description": "Only texts of these origins; all if not given." },
            "path": { "type": "string", "description": "Only texts of this file or below this folder; without `query`, the file itself." },
            "before": { "type": "integer", "minimum": 1, "description": "Only what is before this number of the journal." },
            "after": { "type": "integer", "minimum": 0, "description": "Only what is after this number." },
            "number": { "type": "integer", "minimum": 1, "description": "Instead: the number of an entry." },
            "first": { "type": "integer", "minimum": 1, "description": "With `number`: the first line to show." },
        },
    })
}

/// The question of a call.
#[derive(Debug, PartialEq, Eq)]
enum WantedRecall {
    /// Passages for a question, or versions of a file.
    Passages(Box<JournalQuestion>),
    /// An entry, from line `first`.
    Entry { number: u64, first: u64 },
}

#[derive(Debug, Deserialize)]
struct RecallArguments {
    query: Option<String>,
    #[serde(default)]
    scope: Vec<String>,
    path: Option<String>,
    before: Option<u64>,
    after: Option<u64>,
    number: Option<u64>,
    first: Option<u64>,
}

async fn run(call: JournalCall<'_>) -> Result<JournalStep, JournalError> {
    let outcome = match read(call.arguments) {
        Ok(WantedRecall::Entry { number, first }) => entry(call.journal, number, first).await?,
        Ok(WantedRecall::Passages(question)) => {
            let words = words(&question.text);
            match call.journal.ask(*question).await? {
                Some(answer) => found(&answer),
                None => search(call.journal, words).await?,
            }
        }
        Err(error) => error.into(),
    };
    Ok(outcome.into())
}

fn read(text: &str) -> Result<WantedRecall, BadArguments> {
    let RecallArguments { query, scope, path, before, after, number, first } = arguments::read(&FORM, text)?;
    if let Some(number) = number {
        return Ok(WantedRecall::Entry { number, first: first.unwrap_or(1).max(1) });
    }
    let text = query.unwrap_or_default().trim().to_owned();
    let path = path.map(|path| path.trim_start_matches("/workspace/").trim_start_matches("./").to_owned());
    if text.is_empty() && path.as_deref().unwrap_or_default().is_empty() {
        return Err(FORM.refuse("give a `query`, a `path` or a `number`"));
    }
    if let Some(unknown) = scope.iter().find(|word| !SCOPES.contains(&word.as_str())) {
        return Err(FORM.refuse(&format!("there is no scope `{unknown}`; there are {}", SCOPES.join(", "))));
    }
    let question =
        JournalQuestion { text, count: MAX_PASSAGES, origins: scope, path, before, after, entry: None };
    Ok(WantedRecall::Passages(Box::new(question)))
}

/// Passages with their citations, as the model reads them.
fn found(answer: &JournalPassages) -> ToolOutcome {
    if answer.passages.is_empty() {
        return ToolOutcome::text("Nothing like it is in the journal. Try other words, or fewer limits.");
    }
    let texts: Vec<String> = answer.passages.iter().map(cited).collect();
    ToolOutcome::text(format!("{}\n\n`number` shows an entry whole.", texts.join("\n\n")))
}

/// A passage below the line that says where it stands.
pub(crate) fn cited(passage: &JournalPassage) -> String {
    let JournalPassage { entry, origin, path, first_line, last_line, seen, first_seen, text } = passage;
    let before = match seen {
        0 | 1 => String::new(),
        seen => format!(", seen {seen} times, first in [{first_seen}]"),
    };
    let end = text.floor_char_boundary(PASSAGE_BYTES);
    let dots = if end < text.len() { "…" } else { "" };
    format!("[{entry}] {origin}, {path}, lines {first_line} to {last_line}{before}:\n{}{dots}", &text[..end])
}

/// Shows an entry, with the whole of a result that the entry cuts.
async fn entry(journal: &mut JournalClient, number: u64, first: u64) -> Result<ToolOutcome, JournalError> {
    let row = journal.entry(number).await?;
    let is_result = row.as_ref().is_some_and(|row| matches!(row.entry, JournalEntry::StepEnded { .. }));
    if is_result {
        let question = JournalQuestion { entry: Some(number), ..JournalQuestion::default() };
        let answer = journal.ask(question).await?.unwrap_or_default();
        let whole = answer.passages.into_iter().find(|passage| passage.origin != "file");
        if let Some(whole) = whole {
            return Ok(files::numbered(&format!("Entry {number}, the whole result"), &whole.text, first));
        }
    }
    Ok(show(row.as_ref(), number, first))
}

/// Searches the journal word by word.
async fn search(journal: &mut JournalClient, words: Vec<String>) -> Result<ToolOutcome, JournalError> {
    let mut search = JournalSearch::new(words);
    journal.read(|row| search.look_at(&row)).await?;
    Ok(search.outcome())
}

fn words(text: &str) -> Vec<String> {
    text.to_lowercase().split_whitespace().take(MAX_WORDS).map(str::to_owned).collect()
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
        self.best.truncate(MAX_PASSAGES as usize);
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
        JournalEntry::Plan { items } => ("the plan".into(), plan_text(items)),
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
        let mut search = JournalSearch::new(words("Port Refused"));
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
        assert!(read("{}").is_err() && read(r#"{"query": "x", "scope": ["all"]}"#).is_err());
        assert_eq!(read(r#"{"number": 3}"#).unwrap(), WantedRecall::Entry { number: 3, first: 1 });
    }

    #[test]
    fn a_question_is_passed_on_with_its_limits_and_passages_say_where_they_stand() {
        let text = r#"{"query": "port", "scope": ["person"], "path": "/workspace/a.py", "before": 9}"#;
        let WantedRecall::Passages(question) = read(text).unwrap() else { panic!("an entry") };
        assert_eq!((question.path.as_deref(), question.before), (Some("a.py"), Some(9)));
        assert_eq!(question.origins, ["person"]);
        let passage = JournalPassage {
            entry: 7,
            origin: "result".into(),
            path: "shell".into(),
            first_line: 3,
            last_line: 4,
            seen: 2,
            first_seen: 5,
            text: "a\nb".into(),
        };
        assert_eq!(cited(&passage), "[7] result, shell, lines 3 to 4, seen 2 times, first in [5]:\na\nb");
    }

    #[test]
    fn letters_that_change_their_length_in_lower_case_do_no_harm() {
        let mut search = JournalSearch::new(vec!["ende".into()]);
        search.look_at(&row(1, &format!("{} ENDE", "İ".repeat(500))));
        assert!(text(&search.outcome()).contains("[1]"));
    }
}
