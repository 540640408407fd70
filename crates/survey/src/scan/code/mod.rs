//! The code of one Python file, reduced to what decides where values of functions and classes go.
//!
//! Calculations, comparisons and formats are kept only for the calls inside them. The tree of the parser is dropped after
//! the scan; this form takes about a tenth of its memory.

mod builder;
mod expressions;
mod statements;

pub(crate) use builder::file_code;

/// Place of a name in [`FileCode::names`].
pub(crate) type NameIndex = u32;

/// The bodies of a file; the first is the module.
#[derive(Debug, Default)]
pub(crate) struct FileCode {
    pub(crate) names: Vec<String>,
    pub(crate) bodies: Vec<CodeBody>,
    /// Numbers given to places where a value is made or called: all are below this one.
    pub(crate) sites: u32,
}

/// Statements with names of their own.
#[derive(Debug)]
pub(crate) struct CodeBody {
    pub(crate) kind: BodyKind,
    /// Symbol that a reader sees around these statements.
    pub(crate) symbol: Option<usize>,
    /// The body around this one.
    pub(crate) around: Option<usize>,
    pub(crate) parameters: Vec<CodeParameter>,
    pub(crate) statements: Vec<CodeStatement>,
    /// Names that are bound here, sorted.
    pub(crate) bound: Vec<NameIndex>,
    /// Names that are declared to be global or of a function around, sorted.
    pub(crate) outer: Vec<NameIndex>,
    /// True for a generator.
    pub(crate) yields: bool,
    pub(crate) flavour: MethodFlavour,
}

/// Kinds of bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyKind {
    Module,
    Class,
    Function,
    /// A function without a name: nothing can be said to call it.
    Lambda,
}

/// What a decorator of the language makes of a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MethodFlavour {
    Plain,
    Static,
    OfClass,
    /// Runs when its name is read.
    Property,
}

/// A parameter of a function.
#[derive(Debug)]
pub(crate) struct CodeParameter {
    pub(crate) name: NameIndex,
    pub(crate) kind: ParameterKind,
}

/// How a parameter gets its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParameterKind {
    Positional,
    KeywordOnly,
    /// `*name`: a tuple that is made at this site.
    Variadic(u32),
    /// `**name`: a dictionary that is made at this site.
    Keywords(u32),
}

/// Text of a line that proves a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CallEvidence {
    pub(crate) line: u32,
    pub(crate) name: NameIndex,
}

/// A statement.
#[derive(Debug)]
pub(crate) enum CodeStatement {
    Evaluate(CodeExpression),
    Assign {
        targets: Vec<CodeTarget>,
        value: CodeExpression,
    },
    /// `name += value`: the name may keep what it had.
    Extend {
        target: CodeTarget,
        value: CodeExpression,
    },
    Function {
        name: NameIndex,
        body: usize,
        /// Innermost first; each is called with what it decorates.
        decorators: Vec<CodeCall>,
        /// Parameter and default.
        defaults: Vec<(usize, CodeExpression)>,
    },
    Class {
        name: NameIndex,
        body: usize,
        decorators: Vec<CodeCall>,
        bases: Vec<CodeExpression>,
    },
    /// A name that an import binds.
    Import(NameIndex),
    Return(CodeExpression),
    /// The evidence is there if the value is not a call by itself: a class is called then.
    Raise {
        value: CodeExpression,
        evidence: Option<CallEvidence>,
    },
    /// One of several ways, each from the same state.
    Branch(Vec<Vec<CodeStatement>>),
    Loop(Vec<CodeStatement>),
    For {
        target: CodeTarget,
        values: CodeExpression,
        evidence: Option<CallEvidence>,
        body: Vec<CodeStatement>,
    },
    With {
        value: CodeExpression,
        evidence: Option<CallEvidence>,
        target: Option<CodeTarget>,
    },
}

/// What a value is assigned to.
#[derive(Debug)]
pub(crate) enum CodeTarget {
    Name(NameIndex),
    Attribute(CodeExpression, NameIndex),
    Element(CodeExpression, CodeExpression),
    /// Elements one by one. The number is the site of the list that a starred target gets.
    Sequence(Vec<CodeTarget>, u32),
    Starred(Box<CodeTarget>),
    Ignored,
}

/// An expression.
#[derive(Debug)]
pub(crate) enum CodeExpression {
    /// Nothing that is called later.
    Unknown,
    Text(NameIndex),
    Number(i32),
    Name(NameIndex),
    Attribute {
        object: Box<CodeExpression>,
        name: NameIndex,
        line: u32,
    },
    Call(Box<CodeCall>),
    Element(Box<(CodeExpression, CodeExpression)>),
    /// Elements from a number on, as a list that is made at a site.
    Slice {
        value: Box<CodeExpression>,
        start: i32,
        site: u32,
    },
    Sequence {
        elements: Vec<CodeExpression>,
        site: u32,
    },
    Dictionary {
        pairs: Vec<(CodeExpression, CodeExpression)>,
        site: u32,
    },
    Comprehension(Box<CodeComprehension>),
    /// One of these values.
    Either(Vec<CodeExpression>),
    /// The parts are evaluated; the value is not known.
    Parts(Vec<CodeExpression>),
    Lambda {
        body: usize,
        defaults: Vec<(usize, CodeExpression)>,
    },
    Named(NameIndex, Box<CodeExpression>),
    Yield(Box<CodeExpression>),
    YieldFrom(Box<CodeExpression>),
    /// `*value` among arguments or elements.
    Spread(Box<CodeExpression>),
}

/// A call.
#[derive(Debug)]
pub(crate) struct CodeCall {
    pub(crate) function: CodeExpression,
    pub(crate) arguments: Vec<CodeExpression>,
    pub(crate) keywords: Vec<(NameIndex, CodeExpression)>,
    /// Values of `**value`.
    pub(crate) spreads: Vec<CodeExpression>,
    pub(crate) evidence: Option<CallEvidence>,
    /// The first of two sites for what the call makes.
    pub(crate) site: u32,
}

/// A comprehension or a generator expression.
#[derive(Debug)]
pub(crate) struct CodeComprehension {
    pub(crate) clauses: Vec<ComprehensionClause>,
    /// Key and value of a dictionary, else the value alone.
    pub(crate) key: Option<CodeExpression>,
    pub(crate) value: CodeExpression,
    pub(crate) site: u32,
}

/// A clause of a comprehension.
#[derive(Debug)]
pub(crate) enum ComprehensionClause {
    For { target: CodeTarget, values: CodeExpression, evidence: Option<CallEvidence> },
    If(CodeExpression),
}
