//! JSON by structure: the members of the outermost value, and of theirs while they are too large. The name of a chunk is the path of keys.
//!
//! The scanner keeps its own stack and looks only at brackets and strings, so malformed JSON is cut too, somehow, and never fails.

use std::ops::Range;

use super::kinds::{ChunkKind, MAX_BYTES, TARGET_BYTES};
use super::spans::{ChunkSpan, cut, line_ranges};
use super::unescape::unescaped;

/// Keys below this depth are not told apart.
const MAX_DEPTH: usize = 32;

pub(super) fn spans(text: &str) -> Vec<ChunkSpan> {
    let mut pieces = Vec::new();
    // The range that a piece covers, the range of its value, its path of keys, and its depth.
    let mut todo = vec![(0..text.len(), 0..text.len(), String::new(), 0)];
    while let Some((range, value, name, depth)) = todo.pop() {
        let members =
            if range.len() > TARGET_BYTES && depth < MAX_DEPTH { members(text, value) } else { Vec::new() };
        if members.is_empty() {
            pieces.push((range, name));
            continue;
        }
        let mut start = range.start;
        let last = members.len() - 1;
        for (place, member) in members.into_iter().enumerate() {
            // Brackets and commas belong to the member before or after them, so that the pieces cover the text.
            let end = if place == last { range.end } else { member.bytes.end };
            let path = match (name.is_empty(), member.key.is_empty()) {
                (_, true) => name.clone(),
                (true, false) => member.key,
                (false, false) => format!("{name}.{}", member.key),
            };
            todo.push((start..end, member.bytes, path, depth + 1));
            start = end;
        }
    }
    pieces.sort_by_key(|(range, _)| range.start);
    joined(text, pieces)
}

/// One JSON value per line.
pub(super) fn line_spans(text: &str) -> Vec<ChunkSpan> {
    joined(text, line_ranges(text, 0..text.len()).map(|line| (line, String::new())).collect())
}

/// Joins small neighbours, cuts large pieces, and removes escapes from what is searched.
fn joined(text: &str, pieces: Vec<(Range<usize>, String)>) -> Vec<ChunkSpan> {
    let mut found: Vec<(Range<usize>, String)> = Vec::new();
    for (range, name) in pieces {
        match found.last_mut() {
            Some((last, names)) if last.len() + range.len() <= TARGET_BYTES => {
                last.end = range.end;
                if *names != name {
                    *names = common(names, &name).to_owned();
                }
            }
            _ => found.push((range, name)),
        }
    }
    let parts = found.into_iter().flat_map(|(range, name)| {
        let parts = if range.len() > MAX_BYTES { cut(text, range) } else { vec![range] };
        parts.into_iter().map(move |part| (part, name.clone()))
    });
    let span = |(bytes, name): (Range<usize>, String)| {
        let searched = unescaped(&text[bytes.clone()]);
        ChunkSpan { searched, ..ChunkSpan::new(bytes, ChunkKind::Data, &name) }
    };
    parts.map(span).collect()
}

/// The keys that two paths share.
fn common<'n>(one: &'n str, other: &str) -> &'n str {
    let mut end = 0;
    for key in one.split('.') {
        let next = if end == 0 { key.len() } else { end + 1 + key.len() };
        let same =
            other.get(..next) == one.get(..next) && matches!(other.as_bytes().get(next), None | Some(b'.'));
        if !same {
            break;
        }
        end = next;
    }
    &one[..end]
}

struct JsonMember {
    key: String,
    /// From the key to the end of the value.
    bytes: Range<usize>,
}

/// The members of the first object or array in a range.
fn members(text: &str, range: Range<usize>) -> Vec<JsonMember> {
    let bytes = text.as_bytes();
    let mut members = Vec::new();
    let mut depth = 0usize;
    let mut start = range.start;
    let mut key = String::new();
    let mut at = range.start;
    while at < range.end {
        match bytes[at] {
            b'"' => {
                let end = string_end(bytes, at, range.end);
                let rest = text.get(end..range.end).unwrap_or("").trim_start();
                if depth == 1 && key.is_empty() && rest.starts_with(':') {
                    key = text.get(at + 1..end.saturating_sub(1)).unwrap_or("").chars().take(80).collect();
                }
                at = end;
                continue;
            }
            b'{' | b'[' => {
                depth += 1;
                if depth == 1 {
                    start = at + 1;
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    members.push(JsonMember { key: std::mem::take(&mut key), bytes: start..at });
                    return members;
                }
            }
            b',' if depth == 1 => {
                members.push(JsonMember { key: std::mem::take(&mut key), bytes: start..at + 1 });
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    members
}

/// The place behind a string that begins at `at`.
pub(super) fn string_end(bytes: &[u8], at: usize, limit: usize) -> usize {
    let mut place = at + 1;
    while place < limit {
        match bytes[place] {
            b'\\' => place += 2,
            b'"' => return place + 1,
            _ => place += 1,
        }
    }
    limit
}
