//! Detects a model that repeats itself without progress. It reads the entries of the journal, so a restarted loop knows as much as the
//! one before.
//!
//! Signs: the same call with the same result several times, two calls in alternation (such as an edit and its opposite), only
//! failing calls, answers without a call. At the first sign the model gets a note. If it continues, a person is asked. A
//! different step, or the words of a person, resets the count.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use sandyard_protocol::ToolCall;

/// Equal steps in a row that are a sign.
const MAX_SAME_STEPS: usize = 3;
/// Repetitions of two alternating steps that are a sign.
const MAX_ALTERNATIONS: usize = 3;
/// Failing calls in a row that are a sign.
const MAX_FAILURES: usize = 8;
/// Answers without a call in a row, after which a person is asked.
const SILENT_ANSWERS: usize = 3;
/// Nudges in a row without effect, after which a person is asked.
const NUDGES: usize = 2;
/// Equal calls that wait for a running command and are still no sign.
const MAX_SAME_WAITS: usize = 30;
/// Steps that are remembered.
const REMEMBERED: usize = MAX_SAME_WAITS;

/// How the model repeats itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stuck {
    pub(crate) sign: StuckSign,
    /// True if the model got enough notes, so that a person must be asked.
    pub(crate) was_told: bool,
}

/// A sign that the model is stuck.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StuckSign {
    /// The same call, the same result.
    Repeats,
    /// Two calls in turn, the same results.
    Alternates,
    /// One failure after another.
    Fails,
    /// Answers without a call.
    Silent,
}

/// The recent steps of the model.
#[derive(Debug, Default)]
pub(crate) struct LoopProgress {
    steps: VecDeque<SeenStep>,
    failures: usize,
    silent: usize,
    /// Nudges since the model last tried something new.
    nudges: usize,
    /// Steps and silent answers since the last nudge. Without any there is nothing new to nudge about.
    since_nudge: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SeenStep {
    call: u64,
    result: u64,
    waits: bool,
}

impl LoopProgress {
    /// Notes an answer of the model.
    pub(crate) fn answered(&mut self, calls: &[ToolCall]) {
        self.silent = if calls.is_empty() { self.silent + 1 } else { 0 };
        self.since_nudge += usize::from(calls.is_empty());
    }

    /// Notes the end of a call.
    pub(crate) fn ended(&mut self, call: &ToolCall, result: u64, failed: bool) {
        self.failures = if failed { self.failures + 1 } else { 0 };
        self.since_nudge += 1;
        let step = SeenStep { call: signature(call), result, waits: waits(call) };
        let is_new = !self.steps.iter().rev().take(2 * MAX_ALTERNATIONS).any(|earlier| *earlier == step);
        if is_new && !failed {
            self.nudges = 0;
        }
        self.steps.push_back(step);
        if self.steps.len() > REMEMBERED {
            self.steps.pop_front();
        }
    }

    /// Notes a nudge. It counts only if there was a sign.
    pub(crate) fn nudged(&mut self) {
        if self.sign().is_some() {
            self.nudges += 1;
            self.since_nudge = 0;
            self.failures = 0;
        }
    }

    /// Notes that a person spoke, which resets everything.
    pub(crate) fn heard(&mut self) {
        *self = Self::default();
    }

    /// Returns the sign, if there is one and the model has done something since the last nudge.
    pub(crate) fn stuck(&self) -> Option<Stuck> {
        let sign = self.sign().filter(|_| self.nudges == 0 || self.since_nudge > 0)?;
        let was_told = match sign {
            StuckSign::Silent => self.silent >= SILENT_ANSWERS,
            StuckSign::Repeats | StuckSign::Alternates | StuckSign::Fails => self.nudges >= NUDGES,
        };
        Some(Stuck { sign, was_told })
    }

    fn sign(&self) -> Option<StuckSign> {
        // Even one answer without a call leaves the model without a result to continue from.
        if self.silent > 0 {
            Some(StuckSign::Silent)
        } else if self.repeats() {
            Some(StuckSign::Repeats)
        } else if self.alternates() {
            Some(StuckSign::Alternates)
        } else {
            (self.failures >= MAX_FAILURES).then_some(StuckSign::Fails)
        }
    }

    fn repeats(&self) -> bool {
        let Some(last) = self.steps.back() else { return false };
        let often = if last.waits { MAX_SAME_WAITS } else { MAX_SAME_STEPS };
        self.steps.iter().rev().take_while(|step| *step == last).count() >= often
    }

    fn alternates(&self) -> bool {
        let mut latest = self.steps.iter().rev();
        let (Some(last), Some(before)) = (latest.next(), latest.next()) else { return false };
        if last == before || last.waits || before.waits || self.steps.len() < 2 * MAX_ALTERNATIONS {
            return false;
        }
        let expected = [last, before].into_iter().cycle();
        self.steps
            .iter()
            .rev()
            .take(2 * MAX_ALTERNATIONS)
            .zip(expected)
            .all(|(step, expected)| step == expected)
    }
}

fn signature(call: &ToolCall) -> u64 {
    let mut hasher = DefaultHasher::new();
    call.name.hash(&mut hasher);
    // The order of members makes no difference.
    match serde_json::from_str::<serde_json::Value>(&call.arguments) {
        Ok(value) => value.to_string().hash(&mut hasher),
        Err(_) => call.arguments.hash(&mut hasher),
    }
    hasher.finish()
}

/// True if the call only waits for a command that an earlier call started.
fn waits(call: &ToolCall) -> bool {
    let member = |name: &str| {
        serde_json::from_str::<serde_json::Value>(&call.arguments)
            .is_ok_and(|value| value.get(name).is_some())
    };
    call.name == "shell" && member("process")
}

#[cfg(test)]
#[path = "stuck_tests.rs"]
mod tests;
