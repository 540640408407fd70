//! Texts behind a journal, questions to them, and what a model call was packed of.

use serde::{Deserialize, Serialize};

/// A text that belongs to an appended entry and is kept for recall: a whole result, a version of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptText {
    /// What the text is.
    pub origin: TextOrigin,
    /// Path of a file in the workspace, or the name of a tool.
    pub path: String,
    /// Bytes of the text, which follow the request in data frames, text after text.
    pub bytes: u64,
}

/// What a kept text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextOrigin {
    /// Contents of a file when it was read or written.
    File,
    /// The whole of a result that is cut in the entry.
    Result,
    /// The same for a cell of a notebook.
    Cell,
}

/// A question to everything that the job has seen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalQuestion {
    /// The question, in words or as an identifier or error message. Without one, `path` names a file whose versions are wanted, or
    /// `entry` an entry.
    #[serde(default)]
    pub text: String,
    /// Passages wanted.
    #[serde(default)]
    pub count: u32,
    /// Origins of the texts that may answer, as `GET /jobs/{id}/recall` names them; all if it is empty.
    #[serde(default)]
    pub origins: Vec<String>,
    /// Only texts whose path begins so.
    #[serde(default)]
    pub path: Option<String>,
    /// Only texts from before this entry.
    #[serde(default)]
    pub before: Option<u64>,
    /// Only texts from after this entry.
    #[serde(default)]
    pub after: Option<u64>,
    /// The whole texts that are kept behind this entry are wanted.
    #[serde(default)]
    pub entry: Option<u64>,
}

/// Passages for a question, best first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalPassages {
    /// The passages, each checked against what is stored.
    pub passages: Vec<JournalPassage>,
    /// True if the question could not be answered; the journal can still be searched word by word.
    #[serde(default)]
    pub failed: bool,
}

/// A passage with its citation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalPassage {
    /// The entry that it is in, or behind which it is kept.
    pub entry: u64,
    /// Where the text came from: `person`, `model`, `call`, `result`, `file`, `cell` or `note`.
    pub origin: String,
    /// Path of a file, or the name of a tool or kind of entry.
    pub path: String,
    /// First line in its text, counting from 1.
    pub first_line: u32,
    /// Last line.
    pub last_line: u32,
    /// In how many places the same text was seen.
    pub seen: u64,
    /// The entry in which it was seen first.
    pub first_seen: u64,
    /// The passage.
    pub text: String,
}

/// A part of a conversation: which entries it stands for, and why it is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextPart {
    /// The first entry that it stands for.
    pub first: u64,
    /// The last one.
    pub last: u64,
    /// Why it is there.
    pub reason: ContextReason,
    /// Estimated tokens.
    pub tokens: u64,
    /// The text in the place of the entries, if they are not read as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced_by: Option<String>,
}

/// Why a part is in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ContextReason {
    /// Rules and words of people are never left out.
    Rule,
    /// The present plan.
    Plan,
    /// New enough to be whole.
    New,
    /// Older, but small.
    Small,
    /// Older: a line stands for it.
    Masked,
    /// Oldest: a summary stands for several entries.
    Summary,
    /// Found by recall for the present step.
    Recalled,
}
