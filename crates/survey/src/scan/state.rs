//! What the scanners of all deep languages share: positions, texts, enclosing symbols.

use std::collections::BTreeSet;

use sandyard_explain::facts::{FileDepth, SymbolFact};
use sandyard_syntax::{DefinitionKind, Node, ParsedSource, SourceLanguage, SourceOutline};

use crate::scan::found::{FileScan, FoundAlias, FoundMention, MAX_PATH};
use crate::scan::words::first_sentence;

/// Mentions kept of one file. A file that people wrote has fewer different ones.
const MAX_MENTIONS: usize = 20_000;
/// Longest name in a path. Longer ones are not names.
const MAX_NAME_BYTES: usize = 120;

/// A file during its scan.
pub(crate) struct ScanState<'scan> {
    pub(crate) parsed: &'scan ParsedSource<'scan>,
    pub(crate) outline: &'scan SourceOutline,
    pub(crate) scan: FileScan,
    /// Node whose names are noted already: the function of a call, which is visited right after the call.
    pub(crate) done: Option<usize>,
    /// Text of the last attribute and the row where it ends (Rust).
    pub(crate) attribute: Option<(String, usize)>,
    seen: BTreeSet<(Option<usize>, bool, Vec<String>)>,
}

impl<'scan> ScanState<'scan> {
    pub(crate) fn new(parsed: &'scan ParsedSource<'scan>, outline: &'scan SourceOutline) -> Self {
        let lines = parsed.source.iter().filter(|byte| **byte == b'\n').count() as u32
            + u32::from(parsed.source.last().is_some_and(|byte| *byte != b'\n'));
        let mut scan = FileScan::new(parsed.language, lines);
        scan.depth = if outline.has_errors { FileDepth::WithErrors } else { FileDepth::Deep };
        scan.symbols = symbols(parsed, outline);
        Self { parsed, outline, scan, done: None, attribute: None, seen: BTreeSet::new() }
    }

    /// Text of a node, empty if it is too long for a name.
    pub(crate) fn name(&self, node: Node<'_>) -> String {
        if node.end_byte() - node.start_byte() > MAX_NAME_BYTES {
            String::new()
        } else {
            self.parsed.text(node).into_owned()
        }
    }

    /// Text of a field, empty if there is none.
    pub(crate) fn field(&self, node: Node<'_>, field: &str) -> String {
        node.child_by_field_name(field).map(|child| self.name(child)).unwrap_or_default()
    }

    /// Text of a string literal without its quotes, if it is a plain one.
    pub(crate) fn literal(&self, node: Node<'_>) -> Option<String> {
        let text = self.name(node);
        let inner = text.trim_start_matches(['r', 'b', 'u', 'f', 'R']).trim_matches(['"', '\'', '`']);
        let quoted = text.ends_with(['"', '\'', '`']) && text.len() >= 2;
        (quoted && !inner.contains(['"', '\n', '\\'])).then(|| inner.to_owned())
    }

    /// Index of the innermost symbol around a node.
    pub(crate) fn within(&self, node: Node<'_>) -> Option<usize> {
        let definitions = &self.outline.definitions;
        let byte = node.start_byte();
        let after = definitions.partition_point(|definition| definition.bytes.start <= byte);
        let mut present = after.checked_sub(1);
        while let Some(index) = present {
            if definitions[index].bytes.contains(&byte) {
                return Some(index);
            }
            present = definitions[index].parent;
        }
        None
    }

    /// Index of the innermost symbol around a node that is no constant: the value of a constant is code of its surroundings.
    pub(crate) fn code_around(&self, node: Node<'_>) -> Option<usize> {
        let mut present = self.within(node);
        while let Some(index) = present {
            let definition = &self.outline.definitions[index];
            if definition.kind != DefinitionKind::Constant {
                break;
            }
            present = definition.parent;
        }
        present
    }

    /// True if a node lies outside of every function.
    pub(crate) fn outside_functions(&self, node: Node<'_>) -> bool {
        let mut present = self.within(node);
        while let Some(index) = present {
            if self.outline.definitions[index].kind.is_callable() {
                return false;
            }
            present = self.outline.definitions[index].parent;
        }
        true
    }

    /// Notes what a variable stands for.
    pub(crate) fn alias(&mut self, name: String, at: Node<'_>, path: Vec<String>, made: bool) {
        if self.scan.aliases.len() < MAX_MENTIONS && !name.is_empty() {
            let within = self.code_around(at);
            self.scan.aliases.push(FoundAlias { name, within, path, made });
        }
    }

    /// Notes a mention, once for each symbol around it.
    pub(crate) fn mention(&mut self, path: Vec<String>, at: Node<'_>, call: bool) {
        if path.is_empty() || path.len() > MAX_PATH || path.iter().any(String::is_empty) {
            return;
        }
        let within = self.code_around(at);
        if self.seen.len() < MAX_MENTIONS && self.seen.insert((within, call, path.clone())) {
            self.scan.mentions.push(FoundMention { path, line: line_of(at), within, call });
        }
    }
}

/// Line of a node, counted from 1.
pub(crate) fn line_of(node: Node<'_>) -> u32 {
    node.start_position().row as u32 + 1
}

fn symbols(parsed: &ParsedSource<'_>, outline: &SourceOutline) -> Vec<SymbolFact> {
    let name = |index: usize| symbol_name(parsed.language, outline, index);
    let fact = |index: usize| {
        let definition = &outline.definitions[index];
        let signature = parsed.source.get(definition.signature.clone()).unwrap_or_default();
        SymbolFact {
            name: name(index),
            kind: kind_name(definition.kind).to_owned(),
            line: definition.name_line,
            last_line: definition.lines.1,
            public: is_public(parsed.language, &definition.name, signature),
            doc: symbol_doc(parsed, outline, index),
        }
    };
    (0..outline.definitions.len()).map(fact).collect()
}

/// Name of a definition with that of its type. Functions of Python are values, so those inside of others are told apart, too.
fn symbol_name(language: SourceLanguage, outline: &SourceOutline, index: usize) -> String {
    let definition = &outline.definitions[index];
    let mut name = definition.name.clone();
    let mut around = definition.parent;
    for _ in 0..MAX_PATH {
        let Some(parent) = around.map(|parent| &outline.definitions[parent]) else { break };
        let is_python = language == SourceLanguage::Python && parent.kind != DefinitionKind::Constant;
        if parent.kind.is_type() || is_python {
            name = format!("{}.{name}", parent.name);
        }
        around = parent.parent.filter(|_| is_python);
    }
    name
}

fn is_public(language: SourceLanguage, name: &str, signature: &[u8]) -> bool {
    let starts = |word: &[u8]| signature.starts_with(word);
    match language {
        SourceLanguage::Python => !name.starts_with('_'),
        SourceLanguage::JavaScript | SourceLanguage::TypeScript | SourceLanguage::Tsx => {
            starts(b"export") || starts(b"module.exports") || starts(b"exports.")
        }
        SourceLanguage::Rust => starts(b"pub"),
        SourceLanguage::Go => name.starts_with(char::is_uppercase),
        SourceLanguage::Java => starts(b"public") || starts(b"@"),
        SourceLanguage::C | SourceLanguage::Cpp => !starts(b"static"),
        _ => true,
    }
}

fn kind_name(kind: DefinitionKind) -> &'static str {
    match kind {
        DefinitionKind::Function => "function",
        DefinitionKind::Method => "method",
        DefinitionKind::Class => "class",
        DefinitionKind::Struct => "struct",
        DefinitionKind::Trait => "trait",
        DefinitionKind::Interface => "interface",
        DefinitionKind::Enum => "enum",
        DefinitionKind::TypeAlias => "type",
        DefinitionKind::Module => "module",
        DefinitionKind::Implementation => "implementation",
        DefinitionKind::Constant => "constant",
        DefinitionKind::Macro => "macro",
        DefinitionKind::Declaration => "declaration",
    }
}

/// First sentence of the comment before a definition, or of the docstring inside it (Python).
fn symbol_doc(parsed: &ParsedSource<'_>, outline: &SourceOutline, index: usize) -> Option<String> {
    let definition = &outline.definitions[index];
    let lead = parsed.source.get(definition.bytes.start..definition.signature.start).unwrap_or_default();
    if parsed.language != SourceLanguage::Python {
        return first_sentence(&String::from_utf8_lossy(lead));
    }
    let body = parsed.source.get(definition.signature.end..definition.bytes.end).unwrap_or_default();
    let body = body.trim_ascii_start();
    let docstring =
        [&b"\"\"\""[..], b"'''", b"r\"\"\"", b"\""].iter().find_map(|mark| body.strip_prefix(*mark))?;
    let cut = &docstring[..docstring.len().min(600)];
    let text = String::from_utf8_lossy(cut).into_owned();
    let end = text.find("\"\"\"").or_else(|| text.find("'''")).unwrap_or(text.len());
    first_sentence(&text[..end])
}
