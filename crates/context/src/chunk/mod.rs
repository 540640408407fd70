//! From a text to chunks: passages that are found, cited and read as one.
//!
//! `format` decides by path and first bytes how a text is cut; one file per format finds the borders; this file numbers the lines. A
//! chunk is always a byte range of its source, so a citation can be compared with what is stored. Texts come from sandboxes: any
//! bytes are accepted, and the number and size of chunks is bounded by the size of the text.

mod code;
mod format;
mod json;
mod kinds;
mod lines;
mod logs;
mod notebook;
mod prose;
mod spans;
mod unescape;

use std::borrow::Cow;
use std::ops::Range;

pub use format::TextFormat;
pub use kinds::ChunkKind;

use spans::ChunkSpan;

/// A passage of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Where it lies in its source.
    pub bytes: Range<usize>,
    /// Its first line, counting from 1.
    pub first_line: u32,
    /// Its last line.
    pub last_line: u32,
    /// What it is.
    pub kind: ChunkKind,
    /// Name of the definition, or the headings above; empty if there is none.
    pub name: String,
    /// The text that is searched, where it is not the text of the range: JSON strings without escapes, logs without repetitions.
    pub searched: Option<String>,
}

/// Cuts a text into chunks, in order and without overlap. Blank passages belong to no chunk.
pub fn chunks(path: &str, text: &str) -> Vec<Chunk> {
    let spans = match TextFormat::of(path, text) {
        TextFormat::Prose => prose::spans(text),
        TextFormat::Log => logs::spans(text),
        TextFormat::Json => json::spans(text),
        TextFormat::JsonLines => json::line_spans(text),
        TextFormat::Notebook => notebook::spans(text),
        TextFormat::Code => {
            code::spans(path, text).unwrap_or_else(|| lines::spans(text, ChunkKind::Code, ""))
        }
    };
    numbered(text, spans)
}

/// Makes text of any bytes without moving anything: each byte that is not UTF-8 becomes a question mark. `None` for binary data.
pub fn readable(bytes: &[u8]) -> Option<Cow<'_, str>> {
    const LOOKED_AT_BYTES: usize = 8192;
    if bytes.iter().take(LOOKED_AT_BYTES).any(|&byte| byte == 0) {
        return None;
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Some(Cow::Borrowed(text));
    }
    let mut text = String::with_capacity(bytes.len());
    for piece in bytes.utf8_chunks() {
        text.push_str(piece.valid());
        text.extend(piece.invalid().iter().map(|_| '?'));
    }
    Some(Cow::Owned(text))
}

/// Drops blank spans, trims blank lines off the ends of others, and counts lines.
fn numbered(text: &str, spans: Vec<ChunkSpan>) -> Vec<Chunk> {
    let mut line = 1;
    let mut counted = 0;
    let mut found = Vec::with_capacity(spans.len());
    for span in spans {
        let Some(bytes) = trimmed(text, span.bytes) else { continue };
        line += newlines(&text[counted..bytes.start]);
        let first_line = line;
        line += newlines(&text[bytes.clone()]);
        counted = bytes.end;
        let ends_with_newline = text[bytes.clone()].ends_with('\n');
        let last_line = if ends_with_newline { line - 1 } else { line };
        let ChunkSpan { kind, name, searched, .. } = span;
        found.push(Chunk { bytes, first_line, last_line, kind, name, searched });
    }
    found
}

fn trimmed(text: &str, bytes: Range<usize>) -> Option<Range<usize>> {
    let part = &text[bytes.clone()];
    let body = part.trim_end();
    let start = part.len() - part.trim_start().len();
    if body.is_empty() {
        return None;
    }
    // Indentation of the first line stays: it is part of the code.
    let start = part[..start].rfind('\n').map_or(0, |newline| newline + 1);
    Some(bytes.start + start..bytes.start + body.len())
}

fn newlines(text: &str) -> u32 {
    text.bytes().filter(|&byte| byte == b'\n').count() as u32
}

#[cfg(test)]
#[path = "chunk_tests.rs"]
mod tests;
