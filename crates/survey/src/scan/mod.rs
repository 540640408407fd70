//! One file: its symbols, imports, mentions, entries and routes, all as written in it.
//!
//! A table gives each deep language its visitor. The visitor sees every node of the tree in source order.

mod c;
pub(crate) mod code;
mod found;
mod go;
mod item_macros;
mod java;
mod javascript;
mod lines;
mod python;
mod rust;
mod state;
mod words;

pub(crate) use found::{FileScan, FoundAlias, FoundEntry, FoundImport, FoundMention, ImportForm};
use sandyard_syntax::{
    Node, ParseLimits, ParsedSource, SourceLanguage, TreeStep, outline_of_tree, parse, walk_tree,
};
use state::ScanState;
pub(crate) use words::{cut, first_sentence};

/// Looks at one node and notes what it means.
type Visitor = for<'tree> fn(&mut ScanState<'_>, Node<'tree>) -> TreeStep;

const VISITORS: &[(SourceLanguage, Visitor)] = &[
    (SourceLanguage::Python, python::visit),
    (SourceLanguage::JavaScript, javascript::visit),
    (SourceLanguage::TypeScript, javascript::visit),
    (SourceLanguage::Tsx, javascript::visit),
    (SourceLanguage::Rust, rust::visit),
    (SourceLanguage::Go, go::visit),
    (SourceLanguage::Java, java::visit),
    (SourceLanguage::C, c::visit),
    (SourceLanguage::Cpp, c::visit),
];

/// Scans a file. A file that can't be parsed within the limits is scanned by lines.
pub(crate) fn scan(language: SourceLanguage, source: &[u8], limits: ParseLimits) -> FileScan {
    let visitor = VISITORS.iter().find(|(known, _)| *known == language).map(|(_, visitor)| visitor);
    let parsed = visitor.and_then(|visitor| Some((visitor, parse(language, source, limits).ok()?)));
    let mut scan = match parsed {
        None => lines::scan(language, source),
        Some((visitor, parsed)) => {
            let opened =
                (language == SourceLanguage::Rust).then(|| item_macros::opened(&parsed, limits)).flatten();
            match opened.as_ref().and_then(|opened| parse(language, opened, limits).ok()) {
                Some(opened) => visit_all(&opened, *visitor),
                None => visit_all(&parsed, *visitor),
            }
        }
    };
    scan.doc = scan.doc.take().or_else(|| leading_doc(source));
    scan.marks = words::marks(source);
    scan
}

fn visit_all(parsed: &ParsedSource<'_>, visitor: Visitor) -> FileScan {
    let outline = outline_of_tree(parsed);
    let mut state = ScanState::new(parsed, &outline);
    walk_tree(parsed.tree.root_node(), &mut state, |state, node| visitor(state, node), |_, _| {});
    state.scan
}

/// First sentence of the comment that a file begins with.
fn leading_doc(source: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(&source[..source.len().min(4096)]).into_owned();
    let mut comment = String::new();
    let mut block = false;
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with("#!") && comment.is_empty()
            || line.starts_with("#include")
            || line.starts_with("#pragma")
        {
            continue;
        }
        block |= line.starts_with("/*");
        let is_comment = block || ["//", "#", "--", "<!--"].iter().any(|mark| line.starts_with(mark));
        block &= !line.contains("*/");
        if !is_comment && !line.is_empty() {
            break;
        }
        // Paragraphs apart: the first is often a licence.
        if line.is_empty() || line == "*" || line == "//" || line == "#" {
            if let Some(sentence) = first_sentence(&comment) {
                return Some(sentence);
            }
            comment.clear();
        }
        comment.push_str(line);
        comment.push('\n');
    }
    first_sentence(&comment)
}
