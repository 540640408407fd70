//! Logs and output of commands: cut by time and size, and searched without repetitions.
//!
//! A line with a time stamp begins a record; lines without one (stack traces) belong to the record before. A record that looks like
//! an earlier one of its chunk except for numbers is cited but not searched again, so that a thousand lines of a progress bar don't
//! outweigh the one error between them. A record unlike all others of a repetitive log is a chunk of its own.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::kinds::{ChunkKind, TARGET_BYTES};
use super::spans::{ChunkSpan, cut, fill, line_ranges};

/// Lines looked at to decide whether a text has time stamps.
const SAMPLE_LINES: usize = 50;
/// A log is repetitive if there are so many records for each kind of record.
const REPETITIVE_RECORDS: usize = 3;
/// Words of a record that is worth a chunk of its own.
const FEWEST_WORDS: usize = 4;

pub(super) fn spans(text: &str) -> Vec<ChunkSpan> {
    let mut spans = Vec::new();
    let mut usual: Vec<Range<usize>> = Vec::new();
    for (record, standing) in standings(text) {
        if standing == RecordStanding::Singular {
            spans.extend(fill(text, usual.drain(..)));
            spans.push(record);
        } else {
            usual.push(record);
        }
    }
    spans.extend(fill(text, usual));
    spans.into_iter().map(|bytes| span(text, bytes)).collect()
}

/// How a record stands in its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RecordStanding {
    Usual,
    /// Unlike every other record of a repetitive log, and with enough words to mean something.
    Singular,
}

/// The records of a text. Among hundreds of lines that repeat each other, the one that does not is what will be asked for: in a chunk
/// with its neighbours its meaning would be lost.
fn standings(text: &str) -> Vec<(Range<usize>, RecordStanding)> {
    let records = records(text);
    let mut count: HashMap<String, usize> = HashMap::new();
    let templates: Vec<String> =
        records.iter().map(|record| record_template(&text[record.clone()])).collect();
    for template in &templates {
        *count.entry(template.clone()).or_default() += 1;
    }
    let repetitive = count.len() * REPETITIVE_RECORDS <= records.len();
    let standing =
        |template: &String| match repetitive && count.get(template) == Some(&1) && has_words(template) {
            true => RecordStanding::Singular,
            false => RecordStanding::Usual,
        };
    let standings: Vec<RecordStanding> = templates.iter().map(standing).collect();
    records.into_iter().zip(standings).collect()
}

/// The first line of a record without time and numbers.
fn record_template(record: &str) -> String {
    let line = record.lines().next().unwrap_or("");
    template(&line[time_stamp(line)..])
}

fn has_words(template: &str) -> bool {
    let words = template.split(|character: char| !character.is_alphabetic()).filter(|word| word.len() >= 3);
    words.count() >= FEWEST_WORDS
}

/// True if most of the first lines begin with a time.
pub(super) fn is_log(text: &str) -> bool {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).take(SAMPLE_LINES).collect();
    let timed = lines.iter().filter(|line| time_stamp(line) > 0).count();
    lines.len() >= 4 && timed * 2 > lines.len()
}

fn records(text: &str) -> Vec<Range<usize>> {
    let timed = is_log(text);
    let mut records: Vec<Range<usize>> = Vec::new();
    for line in line_ranges(text, 0..text.len()) {
        let words = &text[line.clone()];
        let continues = if timed { time_stamp(words) == 0 } else { words.starts_with([' ', '\t']) };
        match records.last_mut() {
            Some(last) if continues && last.len() + line.len() <= TARGET_BYTES => last.end = line.end,
            _ => records.push(line),
        }
    }
    records.into_iter().flat_map(|record| cut(text, record)).collect()
}

fn span(text: &str, bytes: Range<usize>) -> ChunkSpan {
    let mut seen = HashSet::new();
    let mut searched = String::new();
    let mut left_out = false;
    for line in text[bytes.clone()].lines() {
        let words = &line[time_stamp(line)..];
        left_out |= words.len() < line.len();
        if seen.insert(template(words)) {
            searched.push_str(words);
            searched.push('\n');
        } else {
            left_out = true;
        }
    }
    ChunkSpan { searched: left_out.then_some(searched), ..ChunkSpan::new(bytes, ChunkKind::Log, "") }
}

/// A line without its numbers: lines that differ in numbers only say the same.
fn template(line: &str) -> String {
    let mut template = String::with_capacity(line.len());
    let mut in_number = false;
    for character in line.chars() {
        let number = character.is_ascii_digit();
        if !number {
            template.push(character);
        } else if !in_number {
            template.push('0');
        }
        in_number = number;
    }
    template
}

/// Bytes of the time at the beginning of a line: digits and the marks between them, with at least one colon between digits, or a
/// date. 0 if there is none.
fn time_stamp(line: &str) -> usize {
    const LONGEST_BYTES: usize = 40;
    let bytes = line.as_bytes();
    let mut end = 0;
    let mut digits = 0;
    let mut pairs = 0;
    for (place, &byte) in bytes.iter().take(LONGEST_BYTES).enumerate() {
        match byte {
            b'0'..=b'9' => {
                digits += 1;
                end = place + 1;
            }
            b':' | b'-' if digits > 0 && bytes.get(place + 1).is_some_and(u8::is_ascii_digit) => pairs += 1,
            b'.' | b',' | b'/' | b'+' | b' ' | b'[' | b'(' => {}
            b'T' | b'Z' if digits > 0 => end = place + 1,
            b']' | b')' if digits > 0 => end = place + 1,
            _ => break,
        }
    }
    let closed = bytes.get(end).is_none_or(|byte| !byte.is_ascii_alphanumeric());
    if digits >= 4 && pairs >= 2 && closed { end } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_recognised() {
        for (line, stamp) in [
            ("2026-11-18 10:23:08,123 INFO x", "2026-11-18 10:23:08,123"),
            ("[2026-11-18T10:23:08.123Z] warn", "[2026-11-18T10:23:08.123Z]"),
            ("10:23:08 start", "10:23:08"),
            ("12 files", ""),
            ("error: 404", ""),
        ] {
            assert_eq!(&line[..time_stamp(line)], stamp);
        }
    }
}
