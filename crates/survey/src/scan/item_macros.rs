//! Macros of Rust that only wrap items, such as `cfg_net! { mod net; }`: a grammar sees tokens there, and no modules.
//!
//! Their names and braces are replaced by spaces, so lines and columns stay, and the rest is parsed as what it is.

use sandyard_syntax::{Node, ParseLimits, ParsedSource, SourceLanguage, parse};

/// Macros inside of macros that are opened.
const MAX_NESTING: usize = 3;
/// Macros of one file that are opened.
const MAX_MACROS: usize = 200;

/// The source with its wrapping macros opened; `None` if it has none.
pub(super) fn opened(parsed: &ParsedSource<'_>, limits: ParseLimits) -> Option<Vec<u8>> {
    let mut source = open_once(parsed, limits)?;
    for _ in 1..MAX_NESTING {
        let Ok(again) = parse(SourceLanguage::Rust, &source, limits) else { break };
        let Some(next) = open_once(&again, limits) else { break };
        source = next;
    }
    Some(source)
}

fn open_once(parsed: &ParsedSource<'_>, limits: ParseLimits) -> Option<Vec<u8>> {
    let mut wrappers = Vec::new();
    collect(parsed.tree.root_node(), &mut wrappers);
    let mut source = parsed.source.to_vec();
    let mut changed = false;
    for (start, open, close) in wrappers.into_iter().take(MAX_MACROS) {
        let inner = parsed.source.get(open + 1..close).unwrap_or_default();
        if !declares(inner) || !holds_items(inner, limits) {
            continue;
        }
        changed = true;
        // Line ends stay, so that lines keep their numbers.
        for byte in source[start..=open].iter_mut().filter(|byte| **byte != b'\n') {
            *byte = b' ';
        }
        source[close] = b' ';
    }
    changed.then_some(source)
}

/// Macro calls in the place of items: first byte, opening brace, closing brace.
fn collect(node: Node<'_>, found: &mut Vec<(usize, usize, usize)>) {
    let mut cursor = node.walk();
    for child in node.named_children(&mut cursor) {
        let call = match child.kind() {
            "expression_statement" => child.named_child(0),
            _ => Some(child),
        };
        let Some(call) = call.filter(|call| call.kind() == "macro_invocation") else { continue };
        let tokens = call.named_child(call.named_child_count().saturating_sub(1) as u32);
        let Some(tokens) = tokens.filter(|tokens| tokens.kind() == "token_tree") else { continue };
        let brace = tokens.child(0).is_some_and(|first| first.kind() == "{");
        if brace && tokens.end_byte() > tokens.start_byte() + 1 {
            found.push((call.start_byte(), tokens.start_byte(), tokens.end_byte() - 1));
        }
    }
}

/// True if text may declare modules or imports: only those are worth a second parse.
fn declares(text: &[u8]) -> bool {
    let has = |word: &[u8]| text.windows(word.len()).any(|window| window == word);
    has(b"mod ") || has(b"use ")
}

/// True if text is a list of items without a mistake.
fn holds_items(text: &[u8], limits: ParseLimits) -> bool {
    let Ok(parsed) = parse(SourceLanguage::Rust, text, limits) else { return false };
    let root = parsed.tree.root_node();
    !root.has_error() && root.named_child_count() > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(source: &str) -> Option<String> {
        let limits = ParseLimits::default();
        let parsed = parse(SourceLanguage::Rust, source.as_bytes(), limits).unwrap();
        opened(&parsed, limits).map(|opened| String::from_utf8(opened).unwrap())
    }

    #[test]
    fn wrapped_items_come_out_in_their_places() {
        let source = "cfg_net! {\n    pub mod net;\n    cfg_unix! { use self::net::unix; }\n}\nmod a;\n";
        let expected = "          \n    pub mod net;\n                use self::net::unix;  \n \nmod a;\n";
        assert_eq!(open(source).as_deref(), Some(expected));
    }

    #[test]
    fn other_macros_stay() {
        for source in ["lazy! { static ref A: mod use = 1; }", "println!(\"mod x\");", "mod a;", "m! {}"] {
            assert_eq!(open(source), None, "{source}");
        }
    }
}
