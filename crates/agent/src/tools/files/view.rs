//! Shows files, pictures, directories and results of a search.

use std::fmt::Write as _;

use base64::Engine as _;
use sandyard_protocol::{
    DirectoryEntry, EntryKind, FileRange, GuestErrorCode, ModelPart, Reply, Request, SearchHit, TextOrigin,
};

use sandyard_protocol::limits::KEPT_TEXT_BYTES;

use super::super::ToolOutcome;
use super::super::code::{PICTURE_BYTES, take};
use crate::keeper::{KeeperClient, ToolError};
use crate::shape;

/// Bytes that are read of a file.
const READ_BYTES: u64 = 8 * 1024 * 1024;
/// Lines that one view shows by default.
const DEFAULT_LINES: u64 = 400;
/// Bytes that one view shows: slightly less than the window takes of a result.
const SHOWN_BYTES: usize = 15 * 1024;
/// Bytes that are shown of one line.
const LINE_BYTES: usize = 2000;
/// Entries that are shown of a directory.
const MAX_ENTRIES: usize = 200;
/// Results of one search.
const MAX_HITS: u32 = 60;

pub(super) async fn view(
    keeper: &KeeperClient,
    path: &str,
    first: Option<u64>,
    last: Option<u64>,
) -> Result<ToolOutcome, ToolError> {
    if path.is_empty() {
        return list(keeper, path).await;
    }
    let (bytes, size) = match read(keeper, path).await {
        Err(ToolError::Refused(error)) if error.code == GuestErrorCode::IsADirectory => {
            return list(keeper, path).await;
        }
        other => other?,
    };
    if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        return Ok(picture(path, &bytes));
    }
    if bytes.iter().take(8192).any(|byte| *byte == 0) {
        return Ok(ToolOutcome::failed(format!("{path} is not text ({}).", shape::size(size))));
    }
    let shown = numbered(path, &String::from_utf8_lossy(&bytes), first, last);
    Ok(shown.keeping(TextOrigin::File, path, whole(bytes, size)))
}

/// Reads at most `READ_BYTES` of a file. Returns them and the size of the file.
pub(super) async fn read(keeper: &KeeperClient, path: &str) -> Result<(Vec<u8>, u64), ToolError> {
    let range = Some(FileRange { start: 0, length: Some(READ_BYTES) });
    match keeper.ask(Request::Read { path: path.to_owned(), range }).await? {
        (Reply::Content { stat, length }, mut stream) if length <= READ_BYTES => {
            Ok((take(&mut stream, length).await?, stat.size))
        }
        _ => Err(ToolError::Unexpected),
    }
}

/// The bytes of a file, if all of it was read and it may be kept.
pub(super) fn whole(bytes: Vec<u8>, size: u64) -> Option<Vec<u8>> {
    (bytes.len() as u64 == size && size > 0 && size <= KEPT_TEXT_BYTES).then_some(bytes)
}

fn picture(path: &str, bytes: &[u8]) -> ToolOutcome {
    let base64 = base64::prelude::BASE64_STANDARD.encode(bytes);
    if base64.len() > PICTURE_BYTES {
        return ToolOutcome::failed(format!(
            "{path} is a picture of {}, too large to show.",
            shape::size(bytes.len() as u64)
        ));
    }
    let parts = vec![ModelPart::Text { text: format!("{path}:") }, ModelPart::Png { base64 }];
    ToolOutcome { parts, ..ToolOutcome::default() }
}

/// Numbered lines, and a note about the lines that are not shown.
pub(super) fn numbered(path: &str, text: &str, first: Option<u64>, last: Option<u64>) -> ToolOutcome {
    let all = text.lines().count() as u64;
    if all == 0 {
        return ToolOutcome::text(format!("{path} is empty."));
    }
    let first = first.unwrap_or(1).max(1);
    if first > all {
        return ToolOutcome::failed(format!("{path} has only {all} lines."));
    }
    let wanted = last.unwrap_or(first.saturating_add(DEFAULT_LINES - 1)).clamp(first, all);
    let (shown, reached) = lines(text, first, wanted);
    let mut head = format!("{path}, lines {first} to {reached} of {all}:\n");
    if first == 1 && reached == all {
        head = format!("{path}, {all} lines:\n");
    }
    let mut shown = format!("{head}{shown}");
    if reached < all && last.is_none_or(|last| reached < last.min(all)) {
        // Writing to a string does not fail.
        let _ = write!(shown, "[{} more lines; go on with \"first\": {}]", all - reached, reached + 1);
    }
    ToolOutcome::text(shown)
}

/// Numbered lines from `first` to at most `last`, and the number of the last line that had room.
pub(super) fn lines(text: &str, first: u64, last: u64) -> (String, u64) {
    let (mut shown, mut reached) = (String::new(), first);
    let skip = usize::try_from(first - 1).unwrap_or(usize::MAX);
    for (number, line) in (first..=last).zip(text.lines().skip(skip)) {
        let end = line.floor_char_boundary(LINE_BYTES);
        if shown.len() + end > SHOWN_BYTES && number > first {
            break;
        }
        let dots = if end < line.len() { "…" } else { "" };
        let _ = writeln!(shown, "{number}\t{}{dots}", &line[..end]);
        reached = number;
    }
    (shown, reached)
}

async fn list(keeper: &KeeperClient, path: &str) -> Result<ToolOutcome, ToolError> {
    let request = Request::List { path: path.to_owned(), after: None };
    let (Reply::Entries { entries, more }, _) = keeper.ask(request).await? else {
        return Err(ToolError::Unexpected);
    };
    let name = if path.is_empty() { "/workspace".to_owned() } else { format!("{path}/") };
    if entries.is_empty() {
        return Ok(ToolOutcome::text(format!("{name} is empty.")));
    }
    let mut text = format!("{name}:\n");
    for entry in entries.iter().take(MAX_ENTRIES) {
        let _ = writeln!(text, "{}", describe(entry));
    }
    if more || entries.len() > MAX_ENTRIES {
        text.push_str("[and more; `shell` with `ls` or `find` shows all]");
    }
    Ok(ToolOutcome::text(text))
}

fn describe(entry: &DirectoryEntry) -> String {
    match entry.stat.kind {
        EntryKind::Directory => format!("{}/", entry.name),
        EntryKind::File => format!("{}  {}", entry.name, shape::size(entry.stat.size)),
        EntryKind::Symlink => format!("{} -> {}", entry.name, entry.stat.target.as_deref().unwrap_or("?")),
        EntryKind::Other => format!("{}  (not a file)", entry.name),
    }
}

pub(super) async fn search(
    keeper: &KeeperClient,
    path: &str,
    text: String,
) -> Result<ToolOutcome, ToolError> {
    let request = Request::Search { path: path.to_owned(), text: text.clone(), limit: MAX_HITS };
    let (Reply::Hits { hits, more }, _) = keeper.ask(request).await? else {
        return Err(ToolError::Unexpected);
    };
    if hits.is_empty() {
        return Ok(ToolOutcome::text(format!("`{text}` was not found, neither in names nor in text files.")));
    }
    let line = |hit: &SearchHit| match hit.line {
        0 => format!("{} (its name)", hit.path),
        line => format!("{}:{line}: {}", hit.path, hit.text.trim()),
    };
    let mut found = hits.iter().map(line).collect::<Vec<_>>().join("\n");
    if more {
        found.push_str("\n[there may be more; search in a folder, or for a longer text]");
    }
    Ok(ToolOutcome::text(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(outcome: &ToolOutcome) -> &str {
        match &outcome.parts[0] {
            ModelPart::Text { text } => text,
            ModelPart::Png { .. } => panic!("a picture"),
        }
    }

    #[test]
    fn lines_are_numbered_and_the_rest_is_told() {
        let text: String = (1..=1000).map(|line| format!("line {line}\n")).collect();
        let all = numbered("a.txt", "one\ntwo\n", None, None);
        assert_eq!(text_of(&all), "a.txt, 2 lines:\n1\tone\n2\ttwo\n");
        let part = numbered("a.txt", &text, Some(10), Some(12));
        assert_eq!(text_of(&part), "a.txt, lines 10 to 12 of 1000:\n10\tline 10\n11\tline 11\n12\tline 12\n");
        let long = numbered("a.txt", &text, None, None);
        assert!(
            text_of(&long).ends_with("[600 more lines; go on with \"first\": 401]"),
            "{}",
            text_of(&long)
        );
        assert!(numbered("a.txt", &text, Some(1001), None).failed);
        assert!(numbered("a.txt", "", None, None).parts == ToolOutcome::text("a.txt is empty.").parts);
    }

    #[test]
    fn long_lines_and_many_bytes_are_bounded() {
        let text = format!("{}\n", "x".repeat(1_000_000)).repeat(20);
        let shown = numbered("a.txt", &text, None, None);
        assert!(text_of(&shown).len() < SHOWN_BYTES + LINE_BYTES, "{}", text_of(&shown).len());
    }
}
