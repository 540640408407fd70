//! The progress of a task, beside its journal.

use sandyard_protocol::{OutputOffsets, TaskBudget, WhyAsked};
use serde::{Deserialize, Serialize};

/// The progress of a task, beside its journal.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct TaskRow {
    /// Entries of its journal.
    pub(crate) entries: u64,
    pub(crate) spent: SpentRow,
    /// The present budget; `None` until somebody has changed the one of the request.
    pub(crate) budget: Option<TaskBudget>,
    /// The open question; only while the task waits.
    pub(crate) question: Option<OpenQuestion>,
    /// Milliseconds that the task has waited for answers, without the present wait.
    pub(crate) waited_ms: u64,
    pub(crate) summary: Option<String>,
    /// Why it gave up.
    pub(crate) gave_up: Option<String>,
    /// Output of the machines before the present one.
    #[serde(default)]
    pub(crate) output_base: OutputOffsets,
    /// Events that its journal has left.
    #[serde(default)]
    pub(crate) told: u64,
    /// Tool calls that have begun and not ended.
    pub(crate) open_steps: Vec<OpenStep>,
    /// The pause before the next attempt to get an answer of the model; only during trouble.
    #[serde(default)]
    pub(crate) model_wait: Option<ModelWaitRow>,
    /// The address of a model that gave no answer, if the address may be the cause.
    #[serde(default)]
    pub(crate) model_address: Option<String>,
}

/// A wait for the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ModelWaitRow {
    /// Attempts that have failed.
    pub(crate) failed: u32,
    /// Time of the next attempt, in milliseconds since the epoch.
    pub(crate) until_ms: i64,
    /// Why the last attempt failed.
    pub(crate) why: String,
}

impl ModelWaitRow {
    /// Describes the wait as it is at a time: with what is left of it, or as the attempt that followed it.
    pub(crate) fn words(&self, now_ms: i64) -> String {
        let left_ms = self.until_ms.saturating_sub(now_ms);
        let next = self.failed.saturating_add(1);
        if left_ms <= 0 {
            return format!("waiting for the model, try {next} is under way: {}", self.why);
        }
        let seconds = left_ms.saturating_add(999) / 1000;
        format!("waiting for the model, next try in {seconds} s (try {next}): {}", self.why)
    }
}

/// Spending of a job on models.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SpentRow {
    /// Answers that a provider gave, and calls that it rejected for their content.
    pub(crate) steps: u64,
    pub(crate) tokens_in: u64,
    pub(crate) tokens_out: u64,
    /// In millionths of a millionth of a US dollar.
    pub(crate) money: u64,
}

/// The open question of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OpenQuestion {
    pub(crate) text: String,
    pub(crate) why: WhyAsked,
    /// Milliseconds since the epoch.
    pub(crate) asked_ms: i64,
}

/// A tool call that has begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OpenStep {
    pub(crate) call: String,
    pub(crate) name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_counted_down_and_its_tries_up() {
        let wait = ModelWaitRow { failed: 4, until_ms: 20_000, why: "the provider is busy".into() };
        assert_eq!(
            wait.words(5_000),
            "waiting for the model, next try in 15 s (try 5): the provider is busy"
        );
        assert_eq!(
            wait.words(19_999),
            "waiting for the model, next try in 1 s (try 5): the provider is busy"
        );
        assert_eq!(wait.words(20_000), "waiting for the model, try 5 is under way: the provider is busy");
    }
}
