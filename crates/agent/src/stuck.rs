//! Notices a model that goes round in circles. Fed by the journal's entries, so a loop that died knows as much as before.
//!
//! Signs: the same call with the same result again and again, two calls in turn (an edit and its opposite are such a pair),
//! nothing but failing calls, answers that call nothing. The first sign is told to the model. If it goes on all the same, a
//! person is asked. Anything that differs, or a person's word, starts the count anew.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use sandyard_protocol::ToolCall;

/// The same step so often is a circle.
const SAME_STEPS: usize = 3;
/// Two steps in turn, so often each.
const ALTERNATIONS: usize = 3;
/// Failing calls in a row, whatever they were.
const FAILURES: usize = 8;
/// Answers in a row that call nothing, after which a person is asked.
const SILENT_ANSWERS: usize = 3;
/// Nudges in a row that changed nothing, after which a person is asked.
const NUDGES: usize = 2;
/// Looking at something that still runs is no circle until it is done this often.
const MAX_SAME_WAITS: usize = 30;
/// Steps that are looked back upon.
const REMEMBERED: usize = MAX_SAME_WAITS;

/// How the model goes round in circles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stuck {
    /// What it does.
    pub(crate) sign: StuckSign,
    /// Whether it was told often enough.
    pub(crate) was_told: bool,
}

/// What a circle looks like.
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

/// What was seen of late.
#[derive(Debug, Default)]
pub(crate) struct LoopProgress {
    steps: VecDeque<SeenStep>,
    failures: usize,
    silent: usize,
    /// Nudges since something else was tried.
    nudges: usize,
    /// Steps and silent answers since the last nudge: each is answered once.
    since_nudge: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SeenStep {
    call: u64,
    result: u64,
    waits: bool,
}

impl LoopProgress {
    /// The model answered.
    pub(crate) fn answered(&mut self, calls: &[ToolCall]) {
        self.silent = if calls.is_empty() { self.silent + 1 } else { 0 };
        self.since_nudge += usize::from(calls.is_empty());
    }

    /// A call is over.
    pub(crate) fn ended(&mut self, call: &ToolCall, result: u64, failed: bool) {
        self.failures = if failed { self.failures + 1 } else { 0 };
        self.since_nudge += 1;
        let step = SeenStep { call: signature(call), result, waits: waits(call) };
        let is_new = !self.steps.iter().rev().take(2 * ALTERNATIONS).any(|earlier| *earlier == step);
        if is_new && !failed {
            self.nudges = 0;
        }
        self.steps.push_back(step);
        if self.steps.len() > REMEMBERED {
            self.steps.pop_front();
        }
    }

    /// The loop told the model something. It counts only if there was something of this to tell.
    pub(crate) fn nudged(&mut self) {
        if self.sign().is_some() {
            self.nudges += 1;
            self.since_nudge = 0;
            self.failures = 0;
        }
    }

    /// A person spoke: whatever was, it begins anew.
    pub(crate) fn heard(&mut self) {
        *self = Self::default();
    }

    /// Whether it goes round in circles, and has done something since it was last told.
    pub(crate) fn stuck(&self) -> Option<Stuck> {
        let sign = self.sign().filter(|_| self.nudges == 0 || self.since_nudge > 0)?;
        let was_told = match sign {
            StuckSign::Silent => self.silent >= SILENT_ANSWERS,
            StuckSign::Repeats | StuckSign::Alternates | StuckSign::Fails => self.nudges >= NUDGES,
        };
        Some(Stuck { sign, was_told })
    }

    fn sign(&self) -> Option<StuckSign> {
        // Even one such answer leaves the model without anything to go on from.
        if self.silent > 0 {
            Some(StuckSign::Silent)
        } else if self.repeats() {
            Some(StuckSign::Repeats)
        } else if self.alternates() {
            Some(StuckSign::Alternates)
        } else {
            (self.failures >= FAILURES).then_some(StuckSign::Fails)
        }
    }

    fn repeats(&self) -> bool {
        let Some(last) = self.steps.back() else { return false };
        let often = if last.waits { MAX_SAME_WAITS } else { SAME_STEPS };
        self.steps.iter().rev().take_while(|step| *step == last).count() >= often
    }

    fn alternates(&self) -> bool {
        let mut latest = self.steps.iter().rev();
        let (Some(last), Some(before)) = (latest.next(), latest.next()) else { return false };
        if last == before || last.waits || before.waits || self.steps.len() < 2 * ALTERNATIONS {
            return false;
        }
        let expected = [last, before].into_iter().cycle();
        self.steps.iter().rev().take(2 * ALTERNATIONS).zip(expected).all(|(step, expected)| step == expected)
    }
}

fn signature(call: &ToolCall) -> u64 {
    let mut hasher = DefaultHasher::new();
    call.name.hash(&mut hasher);
    // The same arguments in another order are the same.
    match serde_json::from_str::<serde_json::Value>(&call.arguments) {
        Ok(value) => value.to_string().hash(&mut hasher),
        Err(_) => call.arguments.hash(&mut hasher),
    }
    hasher.finish()
}

/// Whether the call only waits for what an earlier one started.
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
