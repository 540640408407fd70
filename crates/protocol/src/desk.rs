//! The desk: where the loop of a task keeps its journal, which lives on the host.
//!
//! loop: `GuestRequest::Desk`, then `DeskRequest` messages · host: one `DeskReply` message to each, in turn. `Opened` and
//! `Reading` are followed by as many `Entry` messages as they say. `Said` alone comes unasked, at any time after `Opened` and
//! never between those entries. A message is at most `limits::DESK_MESSAGE_BYTES` long, an entry `limits::JOURNAL_ENTRY_BYTES`.
//!
//! Numbers rise by one from 1. Only the loop and its model calls add entries, but for `said`, which the host adds whenever a
//! person speaks. So a number that the loop names is where it expects its entry to come: it comes after any `said` that took
//! that place meanwhile. The loop has been sent those before it hears under which number its own entry was kept.

use serde::{Deserialize, Serialize};

use crate::{ModelPart, ModelUsage, StopReason, ToolCall};

/// What the loop asks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum DeskRequest {
    /// The first request. Answered by `Opened`, then the whole journal so far.
    Open {
        /// Of the loop's program, for the log.
        loop_version: String,
    },
    /// Adds an entry. Answered by `Appended` once it is durable. The same entry under the same number again is answered
    /// alike and added once; another entry there is refused with `NumberTaken`.
    Append {
        /// The number it is expected to have: one more than that of the last entry the loop knows.
        number: u64,
        /// What happened. `task`, `said` and `answer` are the host's to write.
        entry: JournalEntry,
    },
    /// Answered by `Reading`, then that many entries.
    Read {
        /// The first number.
        first: u64,
        /// How many at most; a bound of the host's own holds too (`limits::JOURNAL_READ_ENTRIES`).
        count: u64,
    },
}

/// What the host says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum DeskReply {
    /// The desk is open.
    Opened(Box<TaskFacts>),
    /// So many entries follow.
    Reading {
        /// How many.
        entries: u64,
    },
    /// One of the entries that were announced.
    Entry(JournalRow),
    /// It is durable.
    Appended {
        /// The number it was kept under.
        number: u64,
    },
    /// A person said something; the host has added it to the journal.
    Said(JournalRow),
    /// It was not done.
    Refused {
        /// What kind of refusal.
        code: DeskRefusal,
        /// One sentence.
        message: String,
    },
}

/// Kinds of refusal, by what the loop should do about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeskRefusal {
    /// Another entry has that number, or an earlier one is missing: open the desk again and read.
    NumberTaken,
    /// The entry is longer than `limits::JOURNAL_ENTRY_BYTES`: leave something out.
    TooLarge,
    /// The job's journal is full: only `finished` and `gave_up` still fit.
    JournalFull,
    /// Only the host writes such an entry.
    NotYours,
    /// The job is over, or ends.
    Ended,
}

/// What the loop must know of its task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskFacts {
    /// What a person wants, in plain words.
    pub task: String,
    /// Who answers model calls.
    pub model: ModelFacts,
    /// What the job may spend.
    pub budget: TaskBudget,
    /// What it has spent.
    pub spent: TaskSpent,
    /// The how-many-eth machine of the job this is. Processes and kernels of an earlier one are gone.
    pub incarnation: u32,
    /// Entries that follow.
    pub entries: u64,
}

/// What is known of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelFacts {
    /// As the operator named it; that of a replay says that it is one.
    pub name: String,
    /// Whether a recording answers in a model's place.
    pub replay: bool,
    /// Whether it takes pictures.
    pub sees: bool,
    /// Tokens of a whole conversation, the answer included.
    pub window_tokens: u32,
    /// Tokens of the longest answer.
    pub max_output_tokens: u32,
}

/// What an agent may spend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Budget))]
pub struct TaskBudget {
    /// Answers of a model.
    pub steps: Option<u64>,
    /// Tokens.
    pub tokens: Option<u64>,
    /// Money.
    pub usd: Option<f64>,
    /// What becomes of a job that has used it up; it asks if nothing is said.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<OnBreach>))]
    pub on_breach: OnBreach,
}

/// What becomes of a job whose budget is used up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum OnBreach {
    /// It waits and asks.
    #[default]
    Ask,
    /// It ends, its work kept.
    End,
}

/// What a job has spent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskSpent {
    /// Answers of a model.
    pub steps: u64,
    /// Tokens, read and written.
    pub tokens: u64,
    /// Money, in US dollars, as far as prices are known.
    pub usd: f64,
}

/// An entry with what the host noted of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JournalRow {
    /// Rises by one from 1.
    pub number: u64,
    /// Milliseconds since the epoch, by the host's clock.
    pub at_ms: i64,
    /// In which machine of the job it happened.
    pub incarnation: u32,
    /// What happened.
    pub entry: JournalEntry,
}

/// What happened in a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum JournalEntry {
    /// The task began; always the first entry. Written by the host.
    Task {
        /// What a person wants.
        text: String,
    },
    /// A person spoke. Written by the host.
    Said {
        /// The words.
        text: String,
        /// Who.
        by: Speaker,
        /// The budget from now on, if it was changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        budget: Option<TaskBudget>,
    },
    /// The model answered. Written by the host together with what it cost, before the loop hears `Done`.
    Answer {
        /// Which model.
        model: String,
        /// Its words.
        text: String,
        /// What it called.
        calls: Vec<ToolCall>,
        /// Why it ended.
        stop: StopReason,
        /// What it took.
        usage: ModelUsage,
    },
    /// A tool call is about to run.
    StepBegan {
        /// Its id in the answer.
        call: String,
        /// Which tool.
        name: String,
        /// Its arguments as the model wrote them.
        arguments: String,
    },
    /// A tool call is over, or was cut off.
    StepEnded {
        /// Its id in the answer.
        call: String,
        /// What the model is shown.
        parts: Vec<ModelPart>,
        /// Whether it failed.
        failed: bool,
        /// Whether it was cut off in the middle, so that nobody knows how far it came.
        interrupted: bool,
        /// How long it took.
        took_ms: u64,
        /// Files that it wrote, relative to the workspace.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<String>,
    },
    /// The list of what is to do, as it is now.
    Plan {
        /// In order.
        items: Vec<PlanItem>,
    },
    /// The loop told the model something of its own accord.
    Nudge {
        /// The words.
        text: String,
    },
    /// The job asks a person, and waits from here on.
    Asked {
        /// The question.
        question: String,
        /// Why.
        why: WhyAsked,
    },
    /// Entries that the model is no longer shown in full.
    Packed {
        /// Their numbers.
        numbers: Vec<u64>,
    },
    /// The task is done.
    Finished {
        /// What was done, for a person.
        summary: String,
    },
    /// The task is given up.
    GaveUp {
        /// Why, for a person.
        reason: String,
    },
}

/// Who spoke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Speaker {
    /// A person.
    Person,
    /// The host, in the place of a person who did not answer in time.
    Host,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanItem {
    /// What.
    pub text: String,
    /// How far it is.
    pub state: PlanState,
}

/// How far a thing to do is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlanState {
    /// Not begun.
    Open,
    /// Being done.
    Doing,
    /// Done.
    Done,
}

/// Why a job asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhyAsked {
    /// The model wants to know something.
    Ask,
    /// The budget is used up.
    Budget,
    /// It goes round in circles.
    Stuck,
}
