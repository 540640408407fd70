//! Answers of tools for which the HTTP API answers with plain bytes or with nothing: the tools of MCP return JSON too.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ListingView;

/// An act without a result of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ToolDoneView {
    /// The act that was carried out.
    pub done: ToolAct,
    /// The thing that it was done to: a job by its id as the call named it, a file by its path, a kernel by its
    /// name.
    pub subject: String,
}

/// An act of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolAct {
    /// The thing is gone.
    Deleted,
    /// The words are passed on.
    Replied,
    /// The kernel was told to interrupt its code.
    Interrupted,
    /// The kernel runs again, with empty variables.
    Restarted,
    /// The kernel is gone.
    Stopped,
}

/// Output of a job's own process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogTextView {
    /// `stdout` or `stderr`.
    pub stream: String,
    /// The output, with a line where its middle is left out.
    pub text: String,
    /// Bytes that are left out.
    pub left_out_bytes: u64,
}

/// A path of a workspace, read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReadFileView {
    /// The path, relative to the workspace.
    pub path: String,
    /// What stands at the path.
    pub content: ReadContent,
    /// Size of the whole file in bytes; `null` for a folder.
    pub size: Option<u64>,
    /// A part of a text; `null` for anything else.
    pub text: Option<String>,
    /// The byte at which a long text goes on; `null` at its end.
    pub next_offset: Option<u64>,
    /// Type of a picture. The picture itself is in the answer for a model.
    pub media_type: Option<String>,
    /// Entries of a folder.
    pub listing: Option<ListingView>,
}

/// Kind of content at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReadContent {
    /// Text in UTF-8.
    Text,
    /// A picture that models can see.
    Picture,
    /// Anything else in a file.
    Binary,
    /// A folder.
    Folder,
}

/// A picture of a desktop. The picture itself is in the answer for a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScreenshotView {
    /// Type of the picture.
    pub media_type: String,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
}

/// An explained result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExplainedResultView {
    /// Name of the project.
    pub name: String,
    /// What the project is, in one sentence.
    pub summary: String,
    /// Its parts, those that use others first.
    pub parts: Vec<ExplainedPartView>,
    /// The whole page, in Markdown.
    pub markdown: String,
}

/// A part of an explained project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ExplainedPartView {
    /// Name for people.
    pub name: String,
    /// Its files, most important first.
    pub files: Vec<String>,
}
