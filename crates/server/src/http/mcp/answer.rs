//! The answer of a tool: text and pictures, bounded for a model to read, and refusals with a hint.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{CallToolResult, ContentBlock};
use sandyard_api::ApiError;
use serde::Serialize;
use serde_json::Value;

use crate::http::response::head_and_tail::HeadAndTail;

/// Text of one output in an answer, head and tail together: some ten thousand tokens. More belongs in a file.
pub(super) const MAX_TEXT_BYTES: usize = 40 * 1024;
/// Pictures of one answer, encoded; clients and models refuse more.
const MAX_PICTURE_BYTES: usize = 8 * 1024 * 1024;

/// An answer under construction.
#[derive(Debug, Default)]
pub(super) struct ToolAnswer {
    blocks: Vec<ContentBlock>,
    pictures: usize,
    /// The same as one JSON value, for programs.
    structured: Option<Value>,
}

impl ToolAnswer {
    /// An answer of one text.
    pub(super) fn of(text: impl Into<String>) -> Self {
        let mut answer = Self::default();
        answer.text(text);
        answer
    }

    /// Adds a text as it is; nothing if it is empty.
    pub(super) fn text(&mut self, text: impl Into<String>) {
        let text = text.into();
        if !text.is_empty() {
            self.blocks.push(ContentBlock::text(text));
        }
    }

    /// Adds the answer as JSON, of the type that the tool's output schema describes.
    #[must_use]
    pub(super) fn with(mut self, view: &impl Serialize) -> Self {
        self.structured = serde_json::to_value(view).ok();
        self
    }

    /// Adds a picture that is encoded already, or says that it is too large.
    pub(super) fn picture(&mut self, mime: &str, base64: &str) {
        self.pictures = self.pictures.saturating_add(base64.len());
        if self.pictures > MAX_PICTURE_BYTES {
            return self.text("[a picture is left out: together they are too large for one answer]");
        }
        self.blocks.push(ContentBlock::image(base64, mime));
    }

    /// Encodes a picture and adds it, or says that it is too large.
    pub(super) fn picture_bytes(&mut self, mime: &str, bytes: &[u8]) {
        self.picture(mime, &STANDARD.encode(bytes));
    }

    /// The result of the call.
    pub(super) fn into_result(mut self) -> CallToolResult {
        if self.blocks.is_empty() {
            self.text("[no output]");
        }
        let mut result = CallToolResult::success(self.blocks);
        result.structured_content = self.structured;
        result
    }
}

/// A refusal as the result of a call: the model reads it and can do better.
pub(super) fn refusal(error: &ApiError) -> CallToolResult {
    let mut text = format!("error ({}): {}", error.code, error.message);
    if let Some(hint) = &error.hint {
        text.push_str(&format!("\nhint: {hint}"));
    }
    CallToolResult::error(vec![ContentBlock::text(text)])
}

/// A text with its middle left out if it is long, and without escape sequences of terminals.
pub(super) fn readable(text: &str) -> String {
    let mut kept = HeadAndTail::with_half(MAX_TEXT_BYTES / 2);
    kept.push(without_escapes(text).as_bytes());
    kept.into_text()
}

/// Colours and cursor movements (CSI sequences) mean nothing to a model and cost it tokens.
fn without_escapes(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter == '\u{1b}' && letters.next_if_eq(&'[').is_some() {
            while letters.next_if(|next| ('\u{20}'..'\u{40}').contains(next)).is_some() {}
            letters.next_if(|next| ('\u{40}'..='\u{7e}').contains(next));
        } else {
            plain.push(letter);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_taken_out_and_the_rest_stays() {
        assert_eq!(without_escapes("\u{1b}[1;31mred\u{1b}[0m ü\u{1b}[2K\n[0m"), "red ü\n[0m");
        assert_eq!(without_escapes("a\u{1b}[99"), "a");
    }

    #[test]
    fn long_text_keeps_both_ends() {
        let text = readable(&format!("first{}last", "x".repeat(1_000_000)));
        assert!(text.starts_with("first") && text.ends_with("last") && text.len() < MAX_TEXT_BYTES + 100);
        assert!(text.contains("bytes left out"));
    }

    #[test]
    fn too_many_pictures_are_counted_not_sent() {
        let mut answer = ToolAnswer::default();
        for _ in 0..3 {
            answer.picture("image/png", &"A".repeat(3 * 1024 * 1024));
        }
        let result = answer.into_result();
        assert_eq!(result.content.iter().filter(|block| block.as_image().is_some()).count(), 2);
    }
}
