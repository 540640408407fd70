//! Bounded parsing, and a walk over a tree that needs no call stack.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use tree_sitter::{Node, ParseOptions, Parser, Tree};

use crate::grammars::grammar;
use crate::language::SourceLanguage;

/// Bounds of one parse.
#[derive(Clone, Copy, Debug)]
pub struct ParseLimits {
    /// Larger sources are refused. A tree takes about ten times the memory of its source.
    pub source_bytes: usize,
    /// A parse that takes longer is given up. Hostile input can make the parser slow, but not endless.
    pub time: Duration,
}

impl Default for ParseLimits {
    /// 1 MiB, which code written by people stays below, and 2 s, a hundred times of what such a file needs.
    fn default() -> Self {
        Self { source_bytes: 1024 * 1024, time: Duration::from_secs(2) }
    }
}

/// A source with its syntax tree. The tree of a source with mistakes has error nodes around them.
pub struct ParsedSource<'source> {
    /// Language of the grammar that made the tree.
    pub language: SourceLanguage,
    /// The bytes that the positions of nodes refer to.
    pub source: &'source [u8],
    /// The tree.
    pub tree: Tree,
}

/// Why a source has no tree.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ParseFailure {
    /// The language is scanned by lines only.
    #[error("{0} has no grammar here")]
    NoGrammar(&'static str),
    /// The source exceeds [`ParseLimits::source_bytes`].
    #[error("the source has {bytes} bytes, more than {limit}")]
    TooLarge {
        /// Size of the source.
        bytes: usize,
        /// The bound.
        limit: usize,
    },
    /// The parse exceeded [`ParseLimits::time`].
    #[error("parsing took longer than {0:?}")]
    TooSlow(Duration),
    /// The grammar does not fit this version of the parser.
    #[error("the grammar of {0} can't be loaded")]
    Grammar(&'static str),
}

/// Parses a source of any bytes.
///
/// # Errors
/// If the language has no grammar, or the source exceeds the limits.
pub fn parse(
    language: SourceLanguage,
    source: &[u8],
    limits: ParseLimits,
) -> Result<ParsedSource<'_>, ParseFailure> {
    let grammar = grammar(language).ok_or(ParseFailure::NoGrammar(language.name()))?;
    if source.len() > limits.source_bytes {
        return Err(ParseFailure::TooLarge { bytes: source.len(), limit: limits.source_bytes });
    }
    let mut parser = Parser::new();
    parser.set_language(&grammar).map_err(|_| ParseFailure::Grammar(language.name()))?;
    let deadline = Instant::now() + limits.time;
    let mut stop =
        |_: &_| if Instant::now() > deadline { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    let mut read = |offset: usize, _| source.get(offset..).unwrap_or_default();
    let options = ParseOptions::new().progress_callback(&mut stop);
    let tree = parser.parse_with_options(&mut read, None, Some(options));
    let tree = tree.ok_or(ParseFailure::TooSlow(limits.time))?;
    Ok(ParsedSource { language, source, tree })
}

impl ParsedSource<'_> {
    /// The text of a node. Bytes that are no UTF-8 are replaced.
    pub fn text(&self, node: Node<'_>) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(self.source.get(node.byte_range()).unwrap_or_default())
    }
}

/// What a walk does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeStep {
    /// Visit the children of this node.
    Descend,
    /// Leave the children of this node out.
    Skip,
}

/// Visits nodes in source order. `enter` decides whether children follow; `leave` is called after the last child of
/// each entered node. Takes memory by the depth of the tree, not stack.
pub fn walk_tree<'tree, State: ?Sized>(
    root: Node<'tree>,
    state: &mut State,
    mut enter: impl FnMut(&mut State, Node<'tree>) -> TreeStep,
    mut leave: impl FnMut(&mut State, Node<'tree>),
) {
    let mut cursor = root.walk();
    loop {
        let node = cursor.node();
        if enter(state, node) == TreeStep::Descend && cursor.goto_first_child() {
            continue;
        }
        leave(state, node);
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return;
            }
            leave(state, cursor.node());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEEP: &[SourceLanguage] = &[
        SourceLanguage::Python,
        SourceLanguage::JavaScript,
        SourceLanguage::TypeScript,
        SourceLanguage::Tsx,
        SourceLanguage::Rust,
        SourceLanguage::Go,
        SourceLanguage::Java,
        SourceLanguage::C,
        SourceLanguage::Cpp,
    ];

    #[test]
    fn every_deep_language_has_a_grammar_that_loads() {
        for language in DEEP {
            assert_eq!(language.depth(), crate::ParseDepth::Deep);
            let parsed = parse(*language, b"x", ParseLimits::default()).unwrap();
            assert_eq!(parsed.tree.root_node().end_byte(), 1);
        }
        assert!(matches!(
            parse(SourceLanguage::Css, b"x", ParseLimits::default()),
            Err(ParseFailure::NoGrammar("CSS"))
        ));
    }

    #[test]
    fn large_and_slow_sources_are_refused() {
        let limits = ParseLimits { source_bytes: 3, time: Duration::from_secs(1) };
        let refused = parse(SourceLanguage::Python, b"1234", limits).err();
        assert_eq!(refused, Some(ParseFailure::TooLarge { bytes: 4, limit: 3 }));
        let limits = ParseLimits { source_bytes: 1 << 20, time: Duration::ZERO };
        let long = "f(a, b);\n".repeat(50_000);
        assert!(matches!(parse(SourceLanguage::C, long.as_bytes(), limits), Err(ParseFailure::TooSlow(_))));
    }

    #[test]
    fn nesting_and_broken_bytes_do_no_harm() {
        let nested = [b"(".repeat(200_000), b"\xff\xfe\0".repeat(1000)].concat();
        for language in DEEP {
            let limits = ParseLimits { source_bytes: 1 << 20, time: Duration::from_secs(20) };
            let Ok(parsed) = parse(*language, &nested, limits) else { continue };
            let mut depth = (0_usize, 0_usize);
            walk_tree(
                parsed.tree.root_node(),
                &mut depth,
                |depth, _| {
                    depth.0 += 1;
                    TreeStep::Descend
                },
                |depth, _| depth.1 += 1,
            );
            assert_eq!(depth.0, depth.1, "every node that was entered is left");
            assert!(crate::outline(*language, &nested).is_some());
        }
    }
}
