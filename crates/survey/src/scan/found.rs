//! What a scan of one file finds. Nothing here knows other files: names are as written, and the resolvers connect them.

use sandyard_explain::facts::{FileDepth, SymbolFact};
use sandyard_syntax::SourceLanguage;

use crate::scan::code::FileCode;

/// Everything that is found in one file.
#[derive(Debug)]
pub(crate) struct FileScan {
    pub(crate) language: SourceLanguage,
    pub(crate) lines: u32,
    pub(crate) depth: FileDepth,
    pub(crate) doc: Option<String>,
    pub(crate) symbols: Vec<SymbolFact>,
    pub(crate) imports: Vec<FoundImport>,
    pub(crate) mentions: Vec<FoundMention>,
    pub(crate) entries: Vec<FoundEntry>,
    pub(crate) routes: Vec<FoundRoute>,
    pub(crate) marks: Vec<(u32, String)>,
    /// Variables that stand for something with a name.
    pub(crate) aliases: Vec<FoundAlias>,
    /// Bases of classes: index of the class, and the path of a base as written.
    pub(crate) bases: Vec<(usize, Vec<String>)>,
    /// Package clause of Java and Go.
    pub(crate) package: Option<String>,
    /// Names that are bound inside functions, so that a mention may mean those.
    pub(crate) locals: std::collections::BTreeSet<String>,
    /// What decides where values go (Python).
    pub(crate) code: Option<FileCode>,
}

impl FileScan {
    pub(crate) fn new(language: SourceLanguage, lines: u32) -> Self {
        Self {
            language,
            lines,
            depth: FileDepth::Lines,
            doc: None,
            symbols: Vec::new(),
            imports: Vec::new(),
            mentions: Vec::new(),
            entries: Vec::new(),
            routes: Vec::new(),
            marks: Vec::new(),
            aliases: Vec::new(),
            bases: Vec::new(),
            package: None,
            locals: std::collections::BTreeSet::new(),
            code: None,
        }
    }
}

/// An import, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FoundImport {
    /// The module, without dots that make it relative (Python) and without quotes.
    pub(crate) module: String,
    /// Number of leading dots (Python).
    pub(crate) level: usize,
    /// Line of the text below.
    pub(crate) line: u32,
    /// Text of that line that names the module.
    pub(crate) symbol: String,
    /// Members that are imported by name.
    pub(crate) names: Vec<FoundName>,
    /// Name that the module itself gets in this file.
    pub(crate) alias: Option<String>,
    /// True if all names of the module are imported.
    pub(crate) wildcard: bool,
    /// True if names are passed on to those who import this file.
    pub(crate) exported: bool,
    /// Modules inside the file around the import (Rust).
    pub(crate) inside: Vec<String>,
    /// What kind of statement it is, where a language has several.
    pub(crate) form: ImportForm,
}

/// Kinds of imports that are resolved differently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ImportForm {
    /// The usual one.
    #[default]
    Plain,
    /// `mod name;` of Rust: a file of this module's folder.
    ChildModule,
    /// `#include <…>` or a `source` of shell that names a system path.
    System,
}

/// A member that is imported by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundName {
    /// Name in the other file.
    pub(crate) name: String,
    /// Name in this file.
    pub(crate) local: String,
    /// Line where the name stands.
    pub(crate) line: u32,
}

/// A mention of something by a path of names, such as `session.get`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FoundMention {
    /// Names from left to right, at most [`MAX_PATH`].
    pub(crate) path: Vec<String>,
    /// Line of the last name.
    pub(crate) line: u32,
    /// Index of the innermost symbol around it.
    pub(crate) within: Option<usize>,
    /// True for a call.
    pub(crate) call: bool,
}

/// A variable that is assigned something with a name: `a = b.c`, or what `B()` makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundAlias {
    /// Name of the variable, or `self.name` of an attribute.
    pub(crate) name: String,
    /// Index of the symbol around the assignment.
    pub(crate) within: Option<usize>,
    /// What is assigned; empty if it has no name.
    pub(crate) path: Vec<String>,
    /// True if the value is what a call of the path returns.
    pub(crate) made: bool,
}

/// Names of a mention that are kept.
pub(crate) const MAX_PATH: usize = 6;

/// A place where execution begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundEntry {
    pub(crate) line: u32,
    pub(crate) symbol: String,
}

/// A route of an HTTP server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundRoute {
    pub(crate) line: u32,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) handler: Option<String>,
}
