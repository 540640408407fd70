//! Code by its definitions: each function or small type is a chunk with its name; what lies between them is cut by lines.

use std::ops::Range;

use sandyard_syntax::{SourceDefinition, SourceLanguage, SourceOutline, outline};

use super::kinds::{ChunkKind, MAX_BYTES, TARGET_BYTES};
use super::lines;
use super::spans::ChunkSpan;

/// Neighbours that are together smaller are one chunk: a row of getters is not worth a vector each.
const SMALL_BYTES: usize = 500;
/// A shorter piece between definitions is no chunk of its own.
const SCRAP_BYTES: usize = 80;
/// Longest name of a chunk, with the names of what encloses it.
const LONGEST_NAME_BYTES: usize = 160;

/// Cuts a program. `None` if its language is unknown or it can't be parsed within bounds.
pub(super) fn spans(path: &str, text: &str) -> Option<Vec<ChunkSpan>> {
    let language = SourceLanguage::detect(path, text.as_bytes())?;
    let outline = outline(language, text.as_bytes())?;
    let mut cutting = CodeCutting { text, found: Vec::new(), open: Vec::new(), cursor: 0 };
    cutting.walk(&outline);
    Some(joined(text, cutting.found))
}

/// A definition that is too large for one chunk, while its parts are cut.
struct OpenDefinition {
    end: usize,
    name: String,
    kind: ChunkKind,
}

struct CodeCutting<'t> {
    text: &'t str,
    found: Vec<ChunkSpan>,
    open: Vec<OpenDefinition>,
    /// Everything before it is in a chunk.
    cursor: usize,
}

impl CodeCutting<'_> {
    fn walk(&mut self, outline: &SourceOutline) {
        let definitions = &outline.definitions;
        let mut has_parts = vec![false; definitions.len()];
        for definition in definitions.iter().filter(|definition| is_part(definition)) {
            if let Some(parent) = definition.parent.and_then(|parent| has_parts.get_mut(parent)) {
                *parent = true;
            }
        }
        let mut names: Vec<String> = Vec::with_capacity(definitions.len());
        for (number, definition) in definitions.iter().enumerate() {
            let name = full_name(definition.parent.and_then(|parent| names.get(parent)), &definition.name);
            names.push(name.clone());
            let bytes = self.borders(&definition.bytes);
            if bytes.start < self.cursor || !is_part(definition) {
                continue;
            }
            self.close_until(bytes.start);
            self.fill_until(bytes.start);
            let small =
                if has_parts[number] && !definition.kind.is_callable() { TARGET_BYTES } else { MAX_BYTES };
            if bytes.len() <= small {
                self.cursor = bytes.end;
                self.found.push(ChunkSpan::new(bytes, ChunkKind::Definition, &name));
            } else {
                let kind =
                    if definition.kind.is_callable() { ChunkKind::Definition } else { ChunkKind::Code };
                self.open.push(OpenDefinition { end: bytes.end, name, kind });
            }
        }
        self.close_until(self.text.len() + 1);
        self.fill_until(self.text.len());
    }

    /// Ends the definitions that end before a place.
    fn close_until(&mut self, place: usize) {
        while let Some(end) = self.open.last().map(|open| open.end).filter(|end| *end <= place) {
            self.fill_until(end);
            self.open.pop();
        }
    }

    /// Cuts what lies between the cursor and a place by lines.
    fn fill_until(&mut self, place: usize) {
        let place = place.min(self.text.len());
        if self.cursor < place {
            let (kind, name) =
                self.open.last().map_or((ChunkKind::Code, ""), |open| (open.kind, open.name.as_str()));
            self.found.extend(lines::spans_within(self.text, self.cursor..place, kind, name));
            self.cursor = place;
        }
    }

    /// The range of a definition, from the beginning of its first line.
    fn borders(&self, bytes: &Range<usize>) -> Range<usize> {
        let start = self.text.floor_char_boundary(bytes.start.min(self.text.len()));
        let end = self.text.floor_char_boundary(bytes.end.min(self.text.len())).max(start);
        let line = self.text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let indented = self.text[line..start].trim().is_empty() && line >= self.cursor;
        (if indented { line } else { start })..end
    }
}

/// Functions and types are worth a chunk of their own; constants and aliases stay with their neighbours.
fn is_part(definition: &SourceDefinition) -> bool {
    definition.kind.is_callable()
        || definition.kind.is_type()
        || matches!(definition.kind, sandyard_syntax::DefinitionKind::Module)
}

fn full_name(parent: Option<&String>, name: &str) -> String {
    let full = parent.map_or_else(|| name.to_owned(), |parent| format!("{parent}.{name}"));
    let start = full.ceil_char_boundary(full.len().saturating_sub(LONGEST_NAME_BYTES));
    full[start..].to_owned()
}

/// Joins small neighbours. A scrap between two definitions, such as a closing bracket or the first line of a block, belongs to one of them.
fn joined(text: &str, spans: Vec<ChunkSpan>) -> Vec<ChunkSpan> {
    let mut found: Vec<ChunkSpan> = Vec::with_capacity(spans.len());
    let mut scrap: Option<Range<usize>> = None;
    for mut span in spans {
        let words = text[span.bytes.clone()].trim();
        if words.is_empty() {
            continue;
        }
        if span.kind == ChunkKind::Code && words.len() <= SCRAP_BYTES {
            match found.last_mut() {
                Some(last) if is_closing(words) && fits(last, &span) => last.bytes.end = span.bytes.end,
                _ => scrap = Some(scrap.map_or(span.bytes.clone(), |scrap| scrap.start..span.bytes.end)),
            }
            continue;
        }
        if let Some(before) = scrap.take().filter(|scrap| span.bytes.end - scrap.start <= MAX_BYTES) {
            span.bytes.start = before.start;
        }
        match found.last_mut() {
            Some(last) if last.kind == span.kind && span.bytes.end - last.bytes.start <= SMALL_BYTES => {
                last.bytes.end = span.bytes.end;
                let names = last.name.len() + span.name.len();
                if last.name != span.name && names < LONGEST_NAME_BYTES {
                    last.name = format!("{} {}", last.name, span.name);
                }
            }
            _ => found.push(span),
        }
    }
    found.extend(scrap.map(|scrap| ChunkSpan::new(scrap, ChunkKind::Code, "")));
    found
}

fn fits(last: &ChunkSpan, next: &ChunkSpan) -> bool {
    next.bytes.end - last.bytes.start <= MAX_BYTES
}

fn is_closing(words: &str) -> bool {
    words
        .chars()
        .all(|character| matches!(character, '}' | ')' | ']' | ';' | ',') || character.is_whitespace())
}
