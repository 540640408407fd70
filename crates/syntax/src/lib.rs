//! Source files as syntax trees, for the explainer and the memory, which share one way to cut code into definitions.
//!
//! [`SourceLanguage`] says what a file is written in, [`parse`] makes a tree of it within bounds, and [`outline`] lists
//! the definitions of a file in source order. Files come from sandboxes: any bytes are accepted, nothing recurses on
//! the call stack by the depth of a tree, and a parse that takes too long is given up.
//!
//! No I/O and no knowledge of what the trees are used for.

mod definitions;
mod grammars;
mod language;
mod outline;
mod parse;

pub use definitions::{DefinitionKind, SourceDefinition, SourceOutline};
pub use language::{ParseDepth, SourceLanguage};
pub use outline::{outline, outline_of_tree};
pub use parse::{ParseFailure, ParseLimits, ParsedSource, TreeStep, parse, walk_tree};
pub use tree_sitter::{Node, Tree};
