//! The journal service: the host stores the journal of a task, and the agent's loop reads and extends it.
//!
//! The loop sends `GuestRequest::Desk`, then `DeskRequest` messages. The host answers each with one `DeskReply`, in order.
//! `Opened` and `Reading` are followed by as many `Entry` messages as they announce. Only `Said` is sent without a request: at any
//! time after `Opened`, but never between those entries. A message has at most `limits::DESK_MESSAGE_BYTES`, an entry at most
//! `limits::JOURNAL_ENTRY_BYTES`.
//!
//! Entries are numbered from 1 without gaps. The loop and its model calls append entries; the host appends `said` whenever a person
//! speaks. The number in an `Append` is therefore an expectation: if `said` entries took that number meanwhile, the entry comes
//! after them. The host sends those `said` entries before it reports the number of the appended entry.

use serde::{Deserialize, Serialize};

use crate::{JournalPassages, JournalQuestion, KeptText, ModelPart, ModelUsage, StopReason, ToolCall};

/// A request of the loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum DeskRequest {
    /// The first request. Answered by `Opened`, then by all entries of the journal.
    Open {
        /// Version of the agent's program, for the log.
        loop_version: String,
    },
    /// Appends an entry. Answered by `Appended` once the entry is durable. Repeating the same entry under the same number gets the
    /// same answer and appends nothing; another entry under that number is rejected with `NumberTaken`.
    Append {
        /// The expected number: one more than that of the last entry the loop knows.
        number: u64,
        /// The entry. Only the host writes `task`, `said` and `answer`.
        entry: JournalEntry,
        /// Texts that are kept behind the entry, if `TaskFacts::keeps_texts`. At most `limits::KEPT_TEXTS`, together of at most
        /// `limits::KEPT_TEXT_BYTES`; their bytes follow in data frames, also for a repeated entry.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        kept: Vec<KeptText>,
    },
    /// Reads entries. Answered by `Reading`, then by as many entries as it announces.
    Read {
        /// Number of the first entry.
        first: u64,
        /// Maximum number of entries; the host sends no more than `limits::JOURNAL_READ_ENTRIES`.
        count: u64,
        /// With a question, passages are wanted and no entries. A host that knows no questions answers with the entries, so `first` and
        /// `count` name one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        question: Option<Box<JournalQuestion>>,
    },
}

/// A message of the host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum DeskReply {
    /// The journal is open.
    Opened(Box<TaskFacts>),
    /// The answer to `Read`: announces the entries that follow.
    Reading {
        /// Number of `Entry` messages that follow.
        entries: u64,
        /// The answer to a question.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        recalled: Option<Box<JournalPassages>>,
    },
    /// One of the announced entries.
    Entry(JournalRow),
    /// The appended entry is durable.
    Appended {
        /// The number of the entry.
        number: u64,
    },
    /// A person said something, and the host has appended it to the journal.
    Said(JournalRow),
    /// The request was rejected.
    Refused {
        /// The kind of refusal.
        code: DeskRefusal,
        /// One sentence for the log of the loop.
        message: String,
    },
}

/// Why the host rejected a request, by how the loop should react.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeskRefusal {
    /// Another entry has that number, or an earlier entry is missing: open the journal again and read it.
    NumberTaken,
    /// The entry is longer than `limits::JOURNAL_ENTRY_BYTES`: shorten it.
    TooLarge,
    /// The job's journal is full: only `finished` and `gave_up` still fit.
    JournalFull,
    /// Only the host writes entries of this kind.
    NotYours,
    /// The job has ended or is ending.
    Ended,
}

/// Facts about the task that the loop needs at its start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskFacts {
    /// The task, as a person wrote it.
    pub task: String,
    /// The model that answers calls.
    pub model: ModelFacts,
    /// The budget of the job.
    pub budget: TaskBudget,
    /// What the job has spent.
    pub spent: TaskSpent,
    /// How many machines this job has had, counting from 1. Processes and kernels of earlier machines are gone.
    pub incarnation: u32,
    /// Number of entries that follow.
    pub entries: u64,
    /// True if the host keeps texts behind entries.
    #[serde(default)]
    pub keeps_texts: bool,
}

/// Properties of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelFacts {
    /// The name that the operator gave the model; the name of a replay says that it is one.
    pub name: String,
    /// True if a recording answers instead of a model.
    pub replay: bool,
    /// True if the model accepts pictures.
    pub sees: bool,
    /// Tokens of a conversation including the answer.
    pub window_tokens: u32,
    /// Tokens of the longest answer.
    pub max_output_tokens: u32,
}

/// Limits of an agent's spending.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = Budget))]
pub struct TaskBudget {
    /// Number of model answers.
    pub steps: Option<u64>,
    /// Tokens read and written.
    pub tokens: Option<u64>,
    /// Money in US dollars.
    pub usd: Option<f64>,
    /// What happens when the budget is exhausted; `ask` if not given.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<OnBreach>))]
    pub on_breach: OnBreach,
}

/// What happens to a job whose budget is exhausted.
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
    /// Number of model answers.
    pub steps: u64,
    /// Tokens that the model read and wrote.
    pub tokens: u64,
    /// US dollars, as far as prices are known.
    pub usd: f64,
}

/// An entry with its number and time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JournalRow {
    /// Starts at 1 and rises by one.
    pub number: u64,
    /// Milliseconds since the Unix epoch by the host's clock.
    pub at_ms: i64,
    /// The machine of the job in which it happened, see `TaskFacts::incarnation`.
    pub incarnation: u32,
    /// The entry, as its writer sent it.
    pub entry: JournalEntry,
}

/// An event of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum JournalEntry {
    /// The task began; always the first entry. Written by the host.
    Task {
        /// The task, as a person wrote it.
        text: String,
    },
    /// A person spoke. Written by the host.
    Said {
        /// The words of the person, or of the host in a person's place.
        text: String,
        /// The author of the words.
        by: Speaker,
        /// The budget from now on, if it was changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        budget: Option<TaskBudget>,
    },
    /// The model answered. Written by the host together with its cost, before the loop receives `ModelEvent::Done`.
    Answer {
        /// Name of the model.
        model: String,
        /// Text of the answer.
        text: String,
        /// Tool calls of the answer.
        calls: Vec<ToolCall>,
        /// Why the answer ended.
        stop: StopReason,
        /// Tokens of the call.
        usage: ModelUsage,
    },
    /// A tool call is about to run.
    StepBegan {
        /// The id of the call in the answer.
        call: String,
        /// Name of the tool.
        name: String,
        /// The arguments as the model wrote them.
        arguments: String,
    },
    /// A tool call ended or was cut off.
    StepEnded {
        /// The id of the call in the answer.
        call: String,
        /// The result that the model reads.
        parts: Vec<ModelPart>,
        /// True if the call failed.
        failed: bool,
        /// True if the call was cut off and may have been carried out in part.
        interrupted: bool,
        /// Duration of the call.
        took_ms: u64,
        /// Files that the call wrote, relative to the workspace.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<String>,
    },
    /// The new plan, which replaces the one before.
    Plan {
        /// The items in the order in which they are to be done.
        items: Vec<PlanItem>,
    },
    /// The loop itself added a message for the model.
    Nudge {
        /// The message, as the model reads it.
        text: String,
    },
    /// The job asks a person and waits for the reply.
    Asked {
        /// The question, as the person reads it.
        question: String,
        /// The reason for asking.
        why: WhyAsked,
    },
    /// Entries that the model no longer reads in full.
    Packed {
        /// Numbers of the entries.
        numbers: Vec<u64>,
    },
    /// The task is done.
    Finished {
        /// A summary of the work, written for a person.
        summary: String,
    },
    /// The task is given up.
    GaveUp {
        /// The reason, written for a person.
        reason: String,
    },
}

/// The speaker of a `said` entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Speaker {
    /// A person.
    Person,
    /// The host, instead of a person who did not answer in time.
    Host,
}

/// One item of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanItem {
    /// What is to be done.
    pub text: String,
    /// Progress of the item.
    pub state: PlanState,
}

/// Progress of an item of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum PlanState {
    /// Not started.
    Open,
    /// In progress.
    Doing,
    /// Done.
    Done,
}

/// Why a job asks a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhyAsked {
    /// The model asked a question.
    Ask,
    /// The budget is used up.
    Budget,
    /// The model repeats itself without progress.
    Stuck,
}
