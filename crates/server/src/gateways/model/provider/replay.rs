//! Plays a recording in place of a model, turn by turn, as long as the conversation matches the recorded one.
//!
//! The number of the turn, the prompt's template, and names and arguments of all earlier tool calls must match. Results of
//! tools are not compared: they differ from run to run. A replay has no position, so a restarted agent may ask again.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use sandyard_protocol::{ModelCall, ModelEvent, ModelFailure, ModelFailureCode, ToolCall};
use serde_json::Value;
use tokio::sync::mpsc;

use super::client::AnswerEnd;
use super::recording::{FORMAT, RecordingHead, ReplayTurn, answers, template_of, turn_of};

/// The largest recording: 2,000 turns of 30 KB.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;
/// Longest tool call in the text of a mismatch.
const MAX_SHOWN_BYTES: usize = 400;

/// The recording can't be played.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The file can't be read.
    #[error("read the recording {}", path.display())]
    Read {
        /// The recording that could not be read.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The file is larger than the longest recording.
    #[error("{} is too large for a recording", .0.display())]
    TooLarge(PathBuf),
    /// A line is not valid.
    #[error("{}, line {line}: {what}", path.display())]
    Line {
        /// The recording with the fault.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// Description of the fault.
        what: String,
    },
}

/// A recording, ready to be played.
#[derive(Debug)]
pub(super) struct Replay {
    model: String,
    turns: Vec<ReplayTurn>,
}

impl Replay {
    /// Reads a whole recording into memory; blocks.
    pub(super) fn open(path: &Path) -> Result<Self, ReplayError> {
        let read = |source| ReplayError::Read { path: path.to_owned(), source };
        if std::fs::metadata(path).map_err(read)?.len() > MAX_FILE_BYTES {
            return Err(ReplayError::TooLarge(path.to_owned()));
        }
        Self::read(&std::fs::read_to_string(path).map_err(read)?, path)
    }

    /// Reads a recording from text. `path` is only used in errors.
    pub(super) fn read(text: &str, path: &Path) -> Result<Self, ReplayError> {
        Self::parse(text).map_err(|(line, what)| ReplayError::Line { path: path.to_owned(), line, what })
    }

    /// If a turn is recorded twice, the later answer is the one that the job used.
    fn parse(text: &str) -> Result<Self, (usize, String)> {
        let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let head = lines.next().and_then(|(_, line)| serde_json::from_str::<RecordingHead>(line).ok());
        let model = match head {
            Some(head) if head.sandyard_recording == FORMAT => head.model,
            Some(head) => {
                return Err((1, format!("a recording of format {}, not {FORMAT}", head.sandyard_recording)));
            }
            None => return Err((1, "not the head of a recording".to_owned())),
        };
        let mut turns: Vec<ReplayTurn> = Vec::new();
        for (index, line) in lines {
            let wrong = |what: String| (index + 1, what);
            let turn: ReplayTurn = serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
            if turn.turn == 0 || turn.turn > turns.len() + 1 {
                return Err(wrong(format!("turn {} follows turn {}", turn.turn, turns.len())));
            }
            if !matches!(turn.events.last(), Some(ModelEvent::Done { .. })) {
                return Err(wrong("a turn without an end".to_owned()));
            }
            turns.truncate(turn.turn - 1);
            turns.push(turn);
        }
        Ok(Self { model, turns })
    }

    /// Returns the name of the recorded model.
    pub(super) fn model(&self) -> &str {
        &self.model
    }

    /// Plays the turn that is asked for.
    pub(super) async fn ask(
        &self,
        call: &ModelCall,
        out: &mpsc::Sender<ModelEvent>,
    ) -> Result<AnswerEnd, ModelFailure> {
        let turn = self.turn(call).map_err(mismatch)?;
        for event in &turn.events {
            if let ModelEvent::Done { stop, usage } = event {
                return Ok(AnswerEnd { stop: *stop, usage: *usage });
            }
            // If the receiver is gone, the gateway drops this future too.
            let _ = out.send(event.clone()).await;
        }
        Err(mismatch("the recorded turn has no end".to_owned()))
    }

    fn turn(&self, call: &ModelCall) -> Result<&ReplayTurn, String> {
        let number = turn_of(call);
        for (index, (asked, recorded)) in answers(call).zip(&self.turns).enumerate() {
            let recorded: Vec<&ToolCall> = recorded.calls().collect();
            if !same(asked, &recorded) {
                return Err(format!(
                    "the calls of turn {} differ{}",
                    index + 1,
                    difference(asked, &recorded)
                ));
            }
        }
        let turn = self.turns.get(number - 1);
        let turn = turn.ok_or_else(|| {
            format!("it ends after turn {}, and turn {number} is asked for", self.turns.len())
        })?;
        let template = template_of(call);
        if turn.template != template {
            return Err(format!(
                "the prompt's template differs at turn {number}\n- recorded: {}\n+ now:      {template}",
                turn.template
            ));
        }
        Ok(turn)
    }
}

fn mismatch(what: String) -> ModelFailure {
    ModelFailure {
        code: ModelFailureCode::Rejected,
        message: format!("the replay does not fit this run: {what}"),
    }
}

fn same(asked: &[ToolCall], recorded: &[&ToolCall]) -> bool {
    asked.len() == recorded.len()
        && asked.iter().zip(recorded).all(|(asked, recorded)| {
            asked.name == recorded.name && same_json(&asked.arguments, &recorded.arguments)
        })
}

/// Compares JSON texts; white space and the order of members are ignored.
fn same_json(one: &str, other: &str) -> bool {
    let parse = |text: &str| serde_json::from_str::<Value>(text).ok();
    one == other || parse(one).is_some_and(|value| Some(value) == parse(other))
}

/// Lists the differing calls, recorded and current, one line each.
fn difference(asked: &[ToolCall], recorded: &[&ToolCall]) -> String {
    let mut text = String::new();
    for index in 0..asked.len().max(recorded.len()) {
        let (now, then) = (asked.get(index), recorded.get(index).copied());
        if let (Some(now), Some(then)) = (now, then)
            && same(std::slice::from_ref(now), &[then])
        {
            continue;
        }
        for (sign, call) in [("- recorded:", then), ("+ now:     ", now)] {
            let shown = call.map_or_else(|| "(no call)".to_owned(), show);
            // Writing to a string does not fail.
            let _ = write!(text, "\n{sign} {shown}");
        }
    }
    text
}

fn show(call: &ToolCall) -> String {
    let mut text = format!("{} {}", call.name, call.arguments);
    if text.len() > MAX_SHOWN_BYTES {
        text.truncate(text.floor_char_boundary(MAX_SHOWN_BYTES));
        text.push('…');
    }
    text
}

#[cfg(test)]
#[path = "replay_tests.rs"]
mod tests;
