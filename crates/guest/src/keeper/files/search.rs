//! Search: plain text in names and contents, bounded in files, bytes, hits and time. Binary files are skipped.

use std::fs::File;
use std::io::Read as _;
use std::time::Instant;

use rustix::fs::OFlags;
use sandyard_protocol::limits::MESSAGE_BYTES;
use sandyard_protocol::{EntryKind, Reply, Request, SearchHit};

use super::error::FileError;
use super::look::READ;
use super::path::RelativePath;
use super::walk::{TreeWalk, WalkEntry};
use super::wire::WorkerWire;
use super::workspace::{Workspace, stat_of};
use crate::limits::{
    SEARCH_BYTES, SEARCH_FILE_BYTES, SEARCH_FILES, SEARCH_HITS, SEARCH_LINE_BYTES, SEARCH_TIME,
};

/// A NUL this early makes a file binary, as git and grep see it.
const BINARY_PROBE: usize = 8192;

/// Finds text below a directory.
pub(super) fn search(
    workspace: &Workspace,
    wire: &mut WorkerWire<'_>,
    request: &Request,
) -> Result<(), FileError> {
    let Request::Search { path, text, limit } = request else {
        return Err(FileError::BadRequest("not a search"));
    };
    if text.is_empty() {
        return Err(FileError::BadRequest("there is no text to look for"));
    }
    let path = RelativePath::parse(path)?;
    let prefix = if path.as_str().is_empty() { String::new() } else { format!("{}/", path.as_str()) };
    let mut walk = TreeWalk::new(workspace, path.as_str().as_bytes())?;
    let mut results = SearchResults::new(text, usize::try_from(*limit).unwrap_or(SEARCH_HITS));
    while let Some(found) = walk.next() {
        if results.is_over() {
            break;
        }
        let shown = format!("{prefix}{}", found.shown);
        if found.shown.rsplit('/').next().is_some_and(|name| name.contains(text.as_str())) {
            results.add(&shown, 0, "");
        }
        // A file that can't be read is skipped; the search goes on.
        let _ = look_into(workspace, &mut walk, &found, &shown, &mut results);
    }
    wire.send_message(&Reply::Hits { hits: results.hits, more: results.more })
}

struct SearchResults<'a> {
    text: &'a str,
    hits: Vec<SearchHit>,
    more: bool,
    most: usize,
    room: usize,
    files: usize,
    bytes: u64,
    started: Instant,
}

impl<'a> SearchResults<'a> {
    fn new(text: &'a str, limit: usize) -> Self {
        let most = limit.min(SEARCH_HITS);
        // JSON may take six bytes for each byte of a path or a line.
        let room = MESSAGE_BYTES / 8;
        Self { text, hits: Vec::new(), more: false, most, room, files: 0, bytes: 0, started: Instant::now() }
    }

    fn add(&mut self, path: &str, line: u64, text: &str) {
        let size = path.len() + text.len() + 64;
        if self.hits.len() >= self.most || size > self.room {
            self.more = true;
            return;
        }
        self.room -= size;
        self.hits.push(SearchHit { path: path.to_owned(), line, text: text.to_owned() });
    }

    /// True if a bound was reached; then there may have been more.
    fn is_over(&mut self) -> bool {
        self.more |=
            self.files >= SEARCH_FILES || self.bytes >= SEARCH_BYTES || self.started.elapsed() > SEARCH_TIME;
        self.more
    }
}

fn look_into(
    workspace: &Workspace,
    walk: &mut TreeWalk<'_>,
    found: &WalkEntry,
    shown: &str,
    results: &mut SearchResults<'_>,
) -> Result<(), FileError> {
    if found.obstacle.is_some() {
        return Ok(());
    }
    let kernel = FileError::kernel("look at the entry");
    let kind = stat_of(workspace.open_plain(&found.raw, OFlags::PATH).map_err(kernel)?)?.kind;
    match kind {
        EntryKind::Directory => walk.enter(found.raw.clone(), found.shown.clone()),
        EntryKind::File => search_file(workspace, found, shown, results),
        _ => Ok(()),
    }
}

fn search_file(
    workspace: &Workspace,
    found: &WalkEntry,
    shown: &str,
    results: &mut SearchResults<'_>,
) -> Result<(), FileError> {
    let file = workspace.open_plain(&found.raw, READ).map_err(FileError::kernel("open the file"))?;
    let stat = stat_of(&file)?;
    if stat.kind != EntryKind::File || stat.size > SEARCH_FILE_BYTES {
        return Ok(());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(stat.size).unwrap_or(0));
    // Bounded again: the file may have grown since its size was read.
    if File::from(file).take(SEARCH_FILE_BYTES).read_to_end(&mut bytes).is_err() {
        return Ok(());
    }
    results.files += 1;
    results.bytes += bytes.len() as u64;
    if !bytes[..bytes.len().min(BINARY_PROBE)].contains(&0) {
        search_text(&String::from_utf8_lossy(&bytes), shown, results);
    }
    Ok(())
}

/// One hit for each line that contains the text.
fn search_text(content: &str, shown: &str, results: &mut SearchResults<'_>) {
    let (mut line, mut counted, mut from) = (1, 0, 0);
    while let Some(place) = content[from..].find(results.text).map(|place| from + place) {
        line += content[counted..place].bytes().filter(|byte| *byte == b'\n').count() as u64;
        let start = content[..place].rfind('\n').map_or(0, |newline| newline + 1);
        let end = content[place..].find('\n').map_or(content.len(), |newline| place + newline);
        results.add(shown, line, cut(&content[start..end.max(start)]));
        if results.more || end >= content.len() {
            return;
        }
        (counted, from) = (place, end + 1);
    }
}

fn cut(line: &str) -> &str {
    let mut end = line.len().min(SEARCH_LINE_BYTES);
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    &line[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_and_told_once() {
        let mut results = SearchResults::new("x", 10);
        search_text("a\nx x\nb\n\nxyz", "f", &mut results);
        let found: Vec<_> = results.hits.iter().map(|hit| (hit.line, hit.text.as_str())).collect();
        assert_eq!(found, [(2, "x x"), (5, "xyz")]);
    }

    #[test]
    fn the_limit_says_that_there_is_more() {
        let mut results = SearchResults::new("x", 1);
        search_text("x\nx", "f", &mut results);
        assert!(results.hits.len() == 1 && results.more);
    }
}
