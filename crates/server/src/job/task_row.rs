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
