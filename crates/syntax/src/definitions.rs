//! What an outline holds.

use std::ops::Range;

use crate::language::SourceLanguage;

/// Kinds of definitions, the same for all languages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DefinitionKind {
    /// A function outside of a type.
    Function,
    /// A function of a class, trait, interface or implementation.
    Method,
    /// A class or record.
    Class,
    /// A struct or union.
    Struct,
    /// A trait or concept.
    Trait,
    /// An interface.
    Interface,
    /// An enumeration.
    Enum,
    /// Another name for a type.
    TypeAlias,
    /// A module or namespace inside a file.
    Module,
    /// The `impl` block of a type in Rust, named after the type.
    Implementation,
    /// A constant or variable outside of functions.
    Constant,
    /// A macro.
    Macro,
    /// A function that is declared here and defined elsewhere (C, C++).
    Declaration,
}

impl DefinitionKind {
    /// True if functions inside are methods.
    pub fn is_type(self) -> bool {
        matches!(
            self,
            Self::Class | Self::Struct | Self::Trait | Self::Interface | Self::Enum | Self::Implementation
        )
    }

    /// True if the definition can be called by its name.
    pub fn is_callable(self) -> bool {
        matches!(self, Self::Function | Self::Method | Self::Macro | Self::Declaration)
    }
}

/// One definition of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceDefinition {
    /// Kind of the definition.
    pub kind: DefinitionKind,
    /// Name as written, at most 200 bytes. A method has its own name only.
    pub name: String,
    /// Index of the enclosing definition in [`SourceOutline::definitions`].
    pub parent: Option<usize>,
    /// Bytes of the whole definition, with the comments, attributes and decorators before it.
    pub bytes: Range<usize>,
    /// First and last line of [`bytes`](Self::bytes), counted from 1.
    pub lines: (u32, u32),
    /// Line of the name, counted from 1.
    pub name_line: u32,
    /// Bytes of the signature: the definition without its leading comments and its body.
    pub signature: Range<usize>,
}

/// The definitions of a file in source order: each follows its parent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceOutline {
    /// Language of the file.
    pub language: SourceLanguage,
    /// At most 20,000 definitions; further ones are left out.
    pub definitions: Vec<SourceDefinition>,
    /// True if the source has mistakes, so that definitions may be missing.
    pub has_errors: bool,
}
