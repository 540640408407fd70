//! Prose: sections by heading, then paragraphs. The name of a chunk is the path of headings above it.

use std::ops::Range;

use super::kinds::ChunkKind;
use super::lines;
use super::spans::{ChunkSpan, fill, line_ranges};

/// Headings deeper than this don't occur in texts that people write.
const MAX_LEVELS: usize = 6;
/// Neighbouring sections that are together shorter are one chunk.
const SMALL_BYTES: usize = 400;
/// A longer line is no heading.
const LONGEST_HEADING_BYTES: usize = 200;

struct ProseSection {
    bytes: Range<usize>,
    name: String,
}

pub(super) fn spans(text: &str) -> Vec<ChunkSpan> {
    let mut found = Vec::new();
    for section in joined(sections(text)) {
        let paragraphs = lines::blocks(text, section.bytes);
        let filled = fill(text, paragraphs);
        found.extend(filled.into_iter().map(|bytes| ChunkSpan::new(bytes, ChunkKind::Prose, &section.name)));
    }
    found
}

/// Joins short sections with their neighbours: a heading over one line is not worth a chunk.
fn joined(sections: Vec<ProseSection>) -> Vec<ProseSection> {
    let mut found: Vec<ProseSection> = Vec::with_capacity(sections.len());
    for section in sections {
        match found.last_mut() {
            Some(last) if section.bytes.end - last.bytes.start <= SMALL_BYTES => {
                last.bytes.end = section.bytes.end;
                if last.name.len() + section.name.len() < LONGEST_HEADING_BYTES {
                    let comma = if last.name.is_empty() { "" } else { ", " };
                    last.name = format!("{}{comma}{}", last.name, section.name);
                }
            }
            _ => found.push(section),
        }
    }
    found
}

fn sections(text: &str) -> Vec<ProseSection> {
    let mut path: Vec<(usize, String)> = Vec::new();
    let mut sections = vec![ProseSection { bytes: 0..0, name: String::new() }];
    let mut fenced = false;
    let mut before = 0..0;
    for line in line_ranges(text, 0..text.len()) {
        let words = text[line.clone()].trim_end();
        if words.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        let heading = if fenced { None } else { heading(words, text[before.clone()].trim_end()) };
        if let Some((level, title, start)) = heading {
            // An underlined heading begins on the line before its underline.
            let start = if start == HeadingStart::LineBefore { before.start } else { line.start };
            path.retain(|(above, _)| *above < level);
            path.push((level, title));
            if let Some(last) = sections.last_mut() {
                last.bytes.end = start;
            }
            let name = path.iter().map(|(_, title)| title.as_str()).collect::<Vec<_>>().join(" > ");
            sections.push(ProseSection { bytes: start..line.end, name });
        } else if let Some(last) = sections.last_mut() {
            last.bytes.end = line.end;
        }
        before = line;
    }
    sections
}

#[derive(PartialEq, Eq)]
enum HeadingStart {
    ThisLine,
    LineBefore,
}

/// Level and title of a heading: `## Title` of Markdown, `== Title` of AsciiDoc, or a line underlined with `=`, `-` or `~`.
fn heading(line: &str, before: &str) -> Option<(usize, String, HeadingStart)> {
    if line.len() > LONGEST_HEADING_BYTES || before.len() > LONGEST_HEADING_BYTES {
        return None;
    }
    for mark in ['#', '='] {
        let level = line.bytes().take_while(|&byte| byte == mark as u8).count();
        let title = line.get(level..).unwrap_or("");
        if (1..=MAX_LEVELS).contains(&level) && title.starts_with(' ') && !title.trim().is_empty() {
            let title = title.trim().trim_end_matches(mark).trim_end();
            return Some((level, title.to_owned(), HeadingStart::ThisLine));
        }
    }
    let level = ["=", "-", "~"].iter().position(|mark| line.starts_with(mark))? + 1;
    let underline = line.len() >= 3 && line.bytes().all(|byte| byte == line.as_bytes()[0]);
    let titled = before.chars().next().is_some_and(|first| first.is_alphanumeric() || first == '`');
    (underline && titled).then(|| (level, before.to_owned(), HeadingStart::LineBefore))
}
