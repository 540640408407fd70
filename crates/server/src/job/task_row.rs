//! How far a task is, as far as its journal does not say it.

use sandyard_protocol::{OutputOffsets, TaskBudget, WhyAsked};
use serde::{Deserialize, Serialize};

/// How far a task is, as far as it is not in its journal.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct TaskRow {
    /// Entries of its journal.
    pub(crate) entries: u64,
    pub(crate) spent: SpentRow,
    /// What it may spend, once somebody has changed it.
    pub(crate) budget: Option<TaskBudget>,
    /// What it asks; only while it waits.
    pub(crate) question: Option<OpenQuestion>,
    /// How long it has waited for answers before.
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
}

/// What a job has spent on models.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SpentRow {
    /// Answers that a provider gave, and calls that it rejected for their content.
    pub(crate) steps: u64,
    pub(crate) tokens_in: u64,
    pub(crate) tokens_out: u64,
    /// In millionths of a millionth of a US dollar.
    pub(crate) money: u64,
}

/// What a job asks.
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
