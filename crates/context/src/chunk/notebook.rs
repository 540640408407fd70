//! Notebooks by cell. A cell is a range of the file; its words are those of its source and text outputs, without pictures.

use serde_json::Value;

use super::json;
use super::kinds::{ChunkKind, MAX_BYTES};
use super::spans::{ChunkSpan, cut};
use super::unescape::unescaped;

/// A longer string of an output is a picture or data.
const LONGEST_OUTPUT_BYTES: usize = 20_000;

pub(super) fn spans(text: &str) -> Vec<ChunkSpan> {
    let cells = cells(text);
    if cells.is_empty() {
        return json::spans(text);
    }
    let mut found = Vec::new();
    for (number, bytes) in (1..).zip(cells) {
        let name = format!("cell {number}");
        let value: Option<Value> = serde_json::from_str(&text[bytes.clone()]).ok();
        let searched = value.map(|cell| words(&cell));
        if bytes.len() <= MAX_BYTES || searched.as_ref().is_some_and(|words| words.len() <= MAX_BYTES) {
            found.push(ChunkSpan { searched, ..ChunkSpan::new(bytes, ChunkKind::Cell, &name) });
            continue;
        }
        // A cell with much output is cut like any text; what is searched is then the text of each part.
        for part in cut(text, bytes) {
            let searched = unescaped(&text[part.clone()]);
            found.push(ChunkSpan { searched, ..ChunkSpan::new(part, ChunkKind::Cell, &name) });
        }
    }
    found
}

/// Byte ranges of the objects in the array `cells`.
fn cells(text: &str) -> Vec<std::ops::Range<usize>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut depth = 0usize;
    let mut start = 0;
    let mut in_cells = false;
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                let end = json::string_end(bytes, at, bytes.len());
                if depth == 1 && text.get(at..end) == Some("\"cells\"") {
                    in_cells = true;
                }
                at = end;
                continue;
            }
            b'{' | b'[' => {
                depth += 1;
                if in_cells && depth == 3 {
                    start = at;
                }
            }
            b'}' | b']' => {
                if in_cells && depth == 3 {
                    found.push(start..at + 1);
                }
                depth = depth.saturating_sub(1);
                if in_cells && depth == 1 {
                    return found;
                }
            }
            _ => {}
        }
        at += 1;
    }
    found
}

fn words(cell: &Value) -> String {
    let mut words = String::new();
    add(&cell["source"], &mut words);
    for output in cell["outputs"].as_array().into_iter().flatten() {
        for part in [&output["text"], &output["ename"], &output["evalue"], &output["data"]["text/plain"]] {
            add(part, &mut words);
        }
    }
    words
}

/// Adds a multiline string of the notebook format: a string, or a list of them.
fn add(value: &Value, words: &mut String) {
    let lines = match value {
        Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect::<Vec<_>>(),
        Value::String(text) => vec![text.as_str()],
        _ => return,
    };
    for line in lines.into_iter().filter(|line| line.len() <= LONGEST_OUTPUT_BYTES) {
        words.push_str(line);
    }
    words.push('\n');
}
