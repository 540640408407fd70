//! A chunk before its lines are counted, and the greedy filling that all formats share.

use std::ops::Range;

use super::kinds::{ChunkKind, MAX_BYTES, TARGET_BYTES};

/// A byte range that becomes a chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChunkSpan {
    pub(crate) bytes: Range<usize>,
    pub(crate) kind: ChunkKind,
    pub(crate) name: String,
    pub(crate) searched: Option<String>,
}

impl ChunkSpan {
    pub(crate) fn new(bytes: Range<usize>, kind: ChunkKind, name: &str) -> Self {
        Self { bytes, kind, name: name.to_owned(), searched: None }
    }
}

/// Byte ranges of the lines of a text, each with its line end.
pub(crate) fn line_ranges(text: &str, within: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let mut at = within.start;
    text[within].split_inclusive('\n').map(move |line| {
        let start = at;
        at += line.len();
        start..at
    })
}

/// Joins neighbouring ranges until a chunk has about the target size. A range that is larger than a chunk may be is cut.
pub(crate) fn fill(text: &str, ranges: impl IntoIterator<Item = Range<usize>>) -> Vec<Range<usize>> {
    let mut filled: Vec<Range<usize>> = Vec::new();
    let mut open: Option<Range<usize>> = None;
    for range in ranges {
        match &mut open {
            Some(last) if last.len() + range.len() <= TARGET_BYTES && last.end == range.start => {
                last.end = range.end
            }
            _ => {
                filled.extend(open.take().into_iter().flat_map(|whole| cut(text, whole)));
                open = Some(range);
            }
        }
    }
    filled.extend(open.into_iter().flat_map(|whole| cut(text, whole)));
    filled
}

/// Cuts a range that is too large: at the last line end before the limit, or inside a line if there is none.
pub(crate) fn cut(text: &str, mut whole: Range<usize>) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    while whole.len() > MAX_BYTES {
        let limit = text.floor_char_boundary(whole.start + TARGET_BYTES * 3 / 2);
        let part = &text[whole.start..limit];
        let end = part.rfind('\n').map_or(limit, |newline| whole.start + newline + 1);
        parts.push(whole.start..end);
        whole.start = end;
    }
    parts.push(whole);
    parts
}
