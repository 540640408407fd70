//! Windows of lines, for code without a grammar and for what lies between definitions. They prefer to end at blank lines.

use std::ops::Range;

use super::kinds::ChunkKind;
use super::spans::{ChunkSpan, cut, fill, line_ranges};

pub(crate) fn spans(text: &str, kind: ChunkKind, name: &str) -> Vec<ChunkSpan> {
    spans_within(text, 0..text.len(), kind, name)
}

/// Windows over a part of a text.
pub(crate) fn spans_within(text: &str, within: Range<usize>, kind: ChunkKind, name: &str) -> Vec<ChunkSpan> {
    fill(text, blocks(text, within)).into_iter().map(|bytes| ChunkSpan::new(bytes, kind, name)).collect()
}

/// Blocks of lines without a blank line between them, each with the blank lines behind it.
pub(super) fn blocks(text: &str, within: Range<usize>) -> Vec<Range<usize>> {
    let mut blocks: Vec<Range<usize>> = Vec::new();
    let mut after_blank = true;
    for line in line_ranges(text, within) {
        let blank = text[line.clone()].trim().is_empty();
        match blocks.last_mut() {
            Some(last) if blank || !after_blank => last.end = line.end,
            _ => blocks.push(line),
        }
        after_blank = blank;
    }
    blocks.into_iter().flat_map(|block| cut(text, block)).collect()
}
