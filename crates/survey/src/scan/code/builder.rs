//! Builds the code of a file from its syntax tree, within bounds.

use std::collections::{BTreeMap, BTreeSet};

use sandyard_syntax::Node;

use crate::scan::code::{
    BodyKind, CallEvidence, CodeBody, CodeExpression, CodeParameter, FileCode, MethodFlavour, NameIndex,
    ParameterKind,
};
use crate::scan::state::{ScanState, line_of};

/// Nested deeper, code is not looked at: this builder and the analysis recurse, and a thread has 2 MiB of stack.
const MAX_DEPTH: usize = 150;
/// Nodes of one file that are looked at. A file of 1 MiB that people wrote has fewer.
const MAX_NODES: usize = 400_000;
/// Elements of a literal that are looked at: a longer one is a table of data.
pub(super) const MAX_ELEMENTS: usize = 200;

/// The code of a whole file.
pub(crate) fn file_code(state: &ScanState<'_>, root: Node<'_>) -> FileCode {
    let mut builder = CodeBuilder {
        state,
        code: FileCode::default(),
        interned: BTreeMap::new(),
        open: Vec::new(),
        depth: 0,
        nodes: 0,
    };
    builder.body(BodyKind::Module, None, None, |builder| builder.block(root));
    builder.code
}

/// A file during its translation.
pub(super) struct CodeBuilder<'state, 'scan> {
    pub(super) state: &'state ScanState<'scan>,
    pub(super) code: FileCode,
    interned: BTreeMap<String, NameIndex>,
    /// The bodies around the present node, innermost last.
    pub(super) open: Vec<OpenBody>,
    depth: usize,
    nodes: usize,
}

/// A body whose statements are being read.
pub(super) struct OpenBody {
    pub(super) index: usize,
    pub(super) bound: BTreeSet<NameIndex>,
    pub(super) outer: BTreeSet<NameIndex>,
    pub(super) yields: bool,
    /// Comprehensions around the present node: their names are not those of the body.
    pub(super) comprehensions: usize,
}

impl<'scan> CodeBuilder<'_, 'scan> {
    /// Goes one level deeper; `None` beyond the bounds.
    pub(super) fn deeper<Built>(&mut self, build: impl FnOnce(&mut Self) -> Built) -> Option<Built> {
        if self.depth >= MAX_DEPTH || self.nodes >= MAX_NODES {
            return None;
        }
        self.depth += 1;
        self.nodes += 1;
        let built = build(self);
        self.depth -= 1;
        Some(built)
    }

    /// Builds a body of its own and returns its place.
    pub(super) fn body(
        &mut self,
        kind: BodyKind,
        symbol: Option<usize>,
        parameters: Option<Node<'_>>,
        statements: impl FnOnce(&mut Self) -> Vec<crate::scan::code::CodeStatement>,
    ) -> usize {
        let index = self.code.bodies.len();
        self.code.bodies.push(CodeBody {
            kind,
            symbol,
            around: self.open.last().map(|open| open.index),
            parameters: Vec::new(),
            statements: Vec::new(),
            bound: Vec::new(),
            outer: Vec::new(),
            yields: false,
            flavour: MethodFlavour::Plain,
        });
        self.open.push(OpenBody {
            index,
            bound: BTreeSet::new(),
            outer: BTreeSet::new(),
            yields: false,
            comprehensions: 0,
        });
        if let Some(parameters) = parameters {
            self.code.bodies[index].parameters = self.parameters(parameters);
        }
        let statements = statements(self);
        if let Some(open) = self.open.pop() {
            let body = &mut self.code.bodies[index];
            body.statements = statements;
            body.bound = open.bound.difference(&open.outer).copied().collect();
            body.outer = open.outer.into_iter().collect();
            body.yields = open.yields;
        }
        index
    }

    fn parameters(&mut self, node: Node<'_>) -> Vec<CodeParameter> {
        let mut found = Vec::new();
        let mut keyword_only = false;
        let mut cursor = node.walk();
        for child in node.named_children(&mut cursor) {
            if matches!(child.kind(), "keyword_separator" | "positional_separator" | "comment") {
                keyword_only |= child.kind() == "keyword_separator";
                continue;
            }
            let named = child.child_by_field_name("name").unwrap_or(child);
            let inner = if named.kind() == "typed_parameter" { named.named_child(0) } else { Some(named) };
            let Some(inner) = inner else { continue };
            let plain = if keyword_only { ParameterKind::KeywordOnly } else { ParameterKind::Positional };
            let kind = match inner.kind() {
                "list_splat_pattern" => {
                    keyword_only = true;
                    ParameterKind::Variadic(self.site())
                }
                "dictionary_splat_pattern" => ParameterKind::Keywords(self.site()),
                _ => plain,
            };
            let identifier = if inner.kind() == "identifier" { Some(inner) } else { inner.named_child(0) };
            let name = identifier.map(|identifier| self.state.name(identifier)).unwrap_or_default();
            let name = self.intern(&name);
            self.bind(name);
            found.push(CodeParameter { name, kind });
        }
        found
    }

    /// Defaults of parameters, in the order of [`Self::parameters`]; they belong to the body around the function.
    pub(super) fn defaults(&mut self, node: Option<Node<'_>>) -> Vec<(usize, CodeExpression)> {
        let Some(node) = node else { return Vec::new() };
        let mut cursor = node.walk();
        let children: Vec<Node<'_>> = node
            .named_children(&mut cursor)
            .filter(|child| !matches!(child.kind(), "keyword_separator" | "positional_separator" | "comment"))
            .collect();
        let values = children.into_iter().enumerate().filter_map(|(at, child)| {
            let value = child.child_by_field_name("value")?;
            Some((at, self.expression(value)))
        });
        values.collect()
    }

    pub(super) fn intern(&mut self, name: &str) -> NameIndex {
        if let Some(known) = self.interned.get(name) {
            return *known;
        }
        let index = self.code.names.len() as NameIndex;
        self.code.names.push(name.to_owned());
        self.interned.insert(name.to_owned(), index);
        index
    }

    pub(super) fn identifier(&mut self, node: Node<'_>) -> NameIndex {
        let name = self.state.name(node);
        self.intern(&name)
    }

    /// Notes that the present body binds a name.
    pub(super) fn bind(&mut self, name: NameIndex) {
        if let Some(open) = self.open.last_mut().filter(|open| open.comprehensions == 0) {
            open.bound.insert(name);
        }
    }

    /// A new site.
    pub(super) fn site(&mut self) -> u32 {
        self.code.sites += 1;
        self.code.sites - 1
    }

    /// The last name of an expression, which a reader finds in its line.
    pub(super) fn evidence(&mut self, node: Node<'_>) -> Option<CallEvidence> {
        let mut present = node;
        for _ in 0..MAX_DEPTH {
            present = match present.kind() {
                "identifier" => break,
                "attribute" => present.child_by_field_name("attribute")?,
                "call" => present.child_by_field_name("function")?,
                "subscript" => present.child_by_field_name("value")?,
                "parenthesized_expression" | "await" => present.named_child(0)?,
                _ => return None,
            };
        }
        (present.kind() == "identifier")
            .then(|| CallEvidence { line: line_of(present), name: self.identifier(present) })
    }
}
