//! The definitions of a file, found by one walk over its tree.
//!
//! A table says for each language which node kinds define something. Comments, attributes and decorators directly
//! before a definition belong to it. Nodes that only wrap a definition (`export`, `template`, decorators) extend it.

use std::ops::Range;

use tree_sitter::Node;

use crate::definitions::{DefinitionKind, SourceDefinition, SourceOutline};
use crate::language::SourceLanguage;
use crate::parse::{ParseLimits, ParsedSource, parse};

/// Definitions that one outline holds at most: more than any file that people wrote.
const MAX_DEFINITIONS: usize = 20_000;
/// Longest name. A longer one is cut.
const MAX_NAME_BYTES: usize = 200;
/// Declarators of C nest; a name deeper than this is none.
const MAX_DECLARATOR_DEPTH: usize = 16;

/// Where the name of a definition is.
#[derive(Clone, Copy)]
enum NameRule {
    /// The field `name`.
    Named,
    /// The field `type`, without its arguments: an `impl` block.
    ImplementedType,
    /// Inside nested declarators (C, C++).
    Declarator,
    /// The field `name` if the node has a body: a use of the type has none (C, C++).
    NamedWithBody,
    /// The field `name`, and the kind follows from the type beside it (Go).
    GoType,
    /// The field `name`, outside of functions only; a function as value makes it a function (JavaScript).
    Variable,
    /// An assignment outside of functions to a plain name (Python).
    PythonConstant,
    /// An assignment of a function to a member (JavaScript).
    MemberFunction,
    /// A declaration of a function outside of functions (C, C++).
    Prototype,
    /// The field `name`, outside of functions only.
    TopLevelNamed,
}

type DefinitionRow = (&'static str, DefinitionKind, NameRule);

use DefinitionKind as Kind;

const PYTHON: &[DefinitionRow] = &[
    ("function_definition", Kind::Function, NameRule::Named),
    ("class_definition", Kind::Class, NameRule::Named),
    ("assignment", Kind::Constant, NameRule::PythonConstant),
];
const JAVASCRIPT: &[DefinitionRow] = &[
    ("function_declaration", Kind::Function, NameRule::Named),
    ("generator_function_declaration", Kind::Function, NameRule::Named),
    ("function_signature", Kind::Function, NameRule::Named),
    ("class_declaration", Kind::Class, NameRule::Named),
    ("abstract_class_declaration", Kind::Class, NameRule::Named),
    ("method_definition", Kind::Method, NameRule::Named),
    ("abstract_method_signature", Kind::Method, NameRule::Named),
    ("interface_declaration", Kind::Interface, NameRule::Named),
    ("enum_declaration", Kind::Enum, NameRule::Named),
    ("type_alias_declaration", Kind::TypeAlias, NameRule::Named),
    ("internal_module", Kind::Module, NameRule::Named),
    ("variable_declarator", Kind::Constant, NameRule::Variable),
    ("assignment_expression", Kind::Function, NameRule::MemberFunction),
];
const RUST: &[DefinitionRow] = &[
    ("function_item", Kind::Function, NameRule::Named),
    ("function_signature_item", Kind::Function, NameRule::Named),
    ("struct_item", Kind::Struct, NameRule::Named),
    ("union_item", Kind::Struct, NameRule::Named),
    ("enum_item", Kind::Enum, NameRule::Named),
    ("trait_item", Kind::Trait, NameRule::Named),
    ("impl_item", Kind::Implementation, NameRule::ImplementedType),
    ("mod_item", Kind::Module, NameRule::NamedWithBody),
    ("type_item", Kind::TypeAlias, NameRule::TopLevelNamed),
    ("const_item", Kind::Constant, NameRule::TopLevelNamed),
    ("static_item", Kind::Constant, NameRule::TopLevelNamed),
    ("macro_definition", Kind::Macro, NameRule::Named),
];
const GO: &[DefinitionRow] = &[
    ("function_declaration", Kind::Function, NameRule::Named),
    ("method_declaration", Kind::Method, NameRule::Named),
    ("type_spec", Kind::TypeAlias, NameRule::GoType),
    ("type_alias", Kind::TypeAlias, NameRule::Named),
    ("const_spec", Kind::Constant, NameRule::TopLevelNamed),
    ("var_spec", Kind::Constant, NameRule::TopLevelNamed),
];
const JAVA: &[DefinitionRow] = &[
    ("class_declaration", Kind::Class, NameRule::Named),
    ("record_declaration", Kind::Class, NameRule::Named),
    ("interface_declaration", Kind::Interface, NameRule::Named),
    ("annotation_type_declaration", Kind::Interface, NameRule::Named),
    ("enum_declaration", Kind::Enum, NameRule::Named),
    ("method_declaration", Kind::Method, NameRule::Named),
    ("constructor_declaration", Kind::Method, NameRule::Named),
];
const C_FAMILY: &[DefinitionRow] = &[
    ("function_definition", Kind::Function, NameRule::Declarator),
    ("declaration", Kind::Declaration, NameRule::Prototype),
    ("struct_specifier", Kind::Struct, NameRule::NamedWithBody),
    ("union_specifier", Kind::Struct, NameRule::NamedWithBody),
    ("class_specifier", Kind::Class, NameRule::NamedWithBody),
    ("enum_specifier", Kind::Enum, NameRule::NamedWithBody),
    ("type_definition", Kind::TypeAlias, NameRule::Declarator),
    ("alias_declaration", Kind::TypeAlias, NameRule::Named),
    ("concept_definition", Kind::Trait, NameRule::Named),
    ("namespace_definition", Kind::Module, NameRule::Named),
    ("preproc_def", Kind::Macro, NameRule::Named),
    ("preproc_function_def", Kind::Macro, NameRule::Named),
];

fn rows(language: SourceLanguage) -> &'static [DefinitionRow] {
    match language {
        SourceLanguage::Python => PYTHON,
        SourceLanguage::JavaScript | SourceLanguage::TypeScript | SourceLanguage::Tsx => JAVASCRIPT,
        SourceLanguage::Rust => RUST,
        SourceLanguage::Go => GO,
        SourceLanguage::Java => JAVA,
        SourceLanguage::C | SourceLanguage::Cpp => C_FAMILY,
        _ => &[],
    }
}

/// Nodes that belong to a definition that follows them.
const LEADING: &[&str] = &["comment", "line_comment", "block_comment", "attribute_item", "decorator"];
/// Nodes whose only purpose is the definition inside them.
const WRAPPERS: &[&str] = &[
    "decorated_definition",
    "export_statement",
    "ambient_declaration",
    "lexical_declaration",
    "variable_declaration",
    "expression_statement",
    "template_declaration",
    "type_declaration",
    "const_declaration",
    "var_declaration",
];

/// Returns the definitions of a source, or `None` if its language has no grammar or it exceeds the usual limits.
pub fn outline(language: SourceLanguage, source: &[u8]) -> Option<SourceOutline> {
    parse(language, source, ParseLimits::default()).ok().map(|parsed| outline_of_tree(&parsed))
}

/// Returns the definitions of a source that is parsed already.
pub fn outline_of_tree(parsed: &ParsedSource<'_>) -> SourceOutline {
    let root = parsed.tree.root_node();
    let mut walk = OutlineWalk {
        parsed,
        rows: rows(parsed.language),
        definitions: Vec::new(),
        levels: Vec::new(),
        open: Vec::new(),
    };
    walk.run(root);
    SourceOutline { language: parsed.language, definitions: walk.definitions, has_errors: root.has_error() }
}

/// Comments and attributes before the next sibling.
#[derive(Clone, Copy)]
struct Lead {
    start: usize,
    start_row: usize,
    end_row: usize,
}

/// An ancestor of the present node.
struct Level<'tree> {
    node: Node<'tree>,
    lead: Option<Lead>,
    /// Lead of this node itself, for a definition that it wraps.
    own_lead: Option<Lead>,
}

struct OutlineWalk<'walk, 'tree> {
    parsed: &'walk ParsedSource<'walk>,
    rows: &'static [DefinitionRow],
    definitions: Vec<SourceDefinition>,
    levels: Vec<Level<'tree>>,
    /// Index and level of each definition that encloses the present node.
    open: Vec<(usize, usize)>,
}

impl<'tree> OutlineWalk<'_, 'tree> {
    /// Not [`walk_tree`](crate::walk_tree): leading comments need the level of each node.
    fn run(&mut self, root: Node<'tree>) {
        let mut cursor = root.walk();
        loop {
            let node = cursor.node();
            let lead = self.take_lead(node);
            self.define(node, lead);
            if self.definitions.len() >= MAX_DEFINITIONS {
                return;
            }
            if cursor.goto_first_child() {
                self.levels.push(Level { node, lead: None, own_lead: lead });
                continue;
            }
            while !cursor.goto_next_sibling() {
                if !cursor.goto_parent() {
                    return;
                }
                self.levels.pop();
                let depth = self.levels.len();
                self.open.retain(|(_, level)| *level < depth);
            }
            let depth = self.levels.len();
            self.open.retain(|(_, level)| *level < depth);
        }
    }

    /// Remembers comments for the next sibling, or returns those that lead this node.
    fn take_lead(&mut self, node: Node<'tree>) -> Option<Lead> {
        let level = self.levels.last_mut()?;
        let (start_row, end_row) = (node.start_position().row, node.end_position().row);
        let before = level.lead.take().filter(|lead| start_row <= lead.end_row + 1);
        if !LEADING.contains(&node.kind()) {
            return before;
        }
        // A doc comment of Rust ends at the start of the next line.
        let end_row = if node.end_position().column == 0 { end_row.saturating_sub(1) } else { end_row };
        let first = before.unwrap_or(Lead { start: node.start_byte(), start_row, end_row });
        level.lead = Some(Lead { end_row: end_row.max(first.end_row), ..first });
        None
    }

    fn define(&mut self, node: Node<'tree>, lead: Option<Lead>) {
        let kind_name = node.kind();
        let Some((_, kind, rule)) = self.rows.iter().find(|(name, _, _)| *name == kind_name) else { return };
        let Some((kind, name)) = self.name(node, *kind, *rule) else { return };
        let parent = self.open.last().map(|(index, _)| *index);
        let kind = match parent.and_then(|index| self.definitions.get(index)) {
            Some(outer) if kind == Kind::Function && outer.kind.is_type() => Kind::Method,
            _ => kind,
        };
        let whole = self.wrapped(node, lead);
        let text = self.text(name);
        let signature = whole.signature_start..self.signature_end(node);
        self.definitions.push(SourceDefinition {
            kind,
            name: text,
            parent,
            bytes: whole.bytes,
            lines: (whole.first_row as u32 + 1, whole.last_row as u32 + 1),
            name_line: name.start_position().row as u32 + 1,
            signature,
        });
        self.open.push((self.definitions.len() - 1, self.levels.len()));
    }

    /// The range of a definition with its wrappers and what leads them.
    fn wrapped(&self, node: Node<'tree>, lead: Option<Lead>) -> WholeRange {
        let (mut outer, mut lead) = (node, lead);
        for level in self.levels.iter().rev() {
            let single = level.node.named_child_count() <= 1 || level.node.kind() != "lexical_declaration";
            if !WRAPPERS.contains(&level.node.kind()) || !single {
                break;
            }
            // A group such as `const ( … )` has several definitions, each with a range of its own.
            let first_inside = outer.start_position().row == level.node.start_position().row
                || matches!(
                    level.node.kind(),
                    "decorated_definition" | "template_declaration" | "export_statement"
                );
            if !first_inside {
                break;
            }
            outer = level.node;
            lead = level.own_lead.or(lead.filter(|lead| lead.start < outer.start_byte()));
        }
        let start = lead.map_or(outer.start_byte(), |lead| lead.start);
        let first_row = lead.map_or(outer.start_position().row, |lead| lead.start_row);
        let end = outer.end_position();
        let last_row = if end.column == 0 && end.row > first_row { end.row - 1 } else { end.row };
        WholeRange {
            bytes: start..outer.end_byte(),
            first_row,
            last_row,
            signature_start: outer.start_byte().max(start),
        }
    }

    fn signature_end(&self, node: Node<'tree>) -> usize {
        let body = node.child_by_field_name("body").or_else(|| {
            node.child_by_field_name("value").and_then(|value| value.child_by_field_name("body"))
        });
        let end = match body {
            Some(body) => body.start_byte(),
            None => {
                let text = self.parsed.source.get(node.byte_range()).unwrap_or_default();
                let line = text.iter().position(|byte| *byte == b'\n').unwrap_or(text.len());
                node.start_byte() + line
            }
        };
        let text = self.parsed.source.get(node.start_byte()..end).unwrap_or_default();
        node.start_byte() + text.trim_ascii_end().len()
    }

    fn text(&self, node: Node<'_>) -> String {
        let bytes = self.parsed.source.get(node.byte_range()).unwrap_or_default();
        String::from_utf8_lossy(&bytes[..bytes.len().min(MAX_NAME_BYTES)]).into_owned()
    }

    fn name(&self, node: Node<'tree>, kind: Kind, rule: NameRule) -> Option<(Kind, Node<'tree>)> {
        let named = || node.child_by_field_name("name");
        match rule {
            NameRule::Named => named().map(|name| (kind, name)),
            NameRule::NamedWithBody => {
                node.child_by_field_name("body")?;
                named().map(|name| (kind, name))
            }
            NameRule::TopLevelNamed => named().filter(|_| !self.in_function()).map(|name| (kind, name)),
            NameRule::ImplementedType => {
                let implemented = node.child_by_field_name("type")?;
                Some((kind, implemented.child_by_field_name("type").unwrap_or(implemented)))
            }
            NameRule::Declarator => declared(node).map(|(name, _)| (kind, name)),
            NameRule::Prototype if self.in_function() => None,
            NameRule::Prototype => {
                declared(node).filter(|(_, function)| *function).map(|(name, _)| (kind, name))
            }
            NameRule::GoType => {
                let kind = match node.child_by_field_name("type").map(|kind| kind.kind()) {
                    Some("struct_type") => Kind::Struct,
                    Some("interface_type") => Kind::Interface,
                    _ => kind,
                };
                named().map(|name| (kind, name))
            }
            NameRule::Variable if self.in_function() => None,
            NameRule::Variable => {
                let name = named().filter(|name| name.kind() == "identifier")?;
                let function = node.child_by_field_name("value").is_some_and(is_function);
                Some((if function { Kind::Function } else { kind }, name))
            }
            NameRule::MemberFunction => {
                node.child_by_field_name("right").filter(|value| is_function(*value))?;
                node.child_by_field_name("left")?.child_by_field_name("property").map(|name| (kind, name))
            }
            NameRule::PythonConstant if self.levels.len() != 2 => None,
            NameRule::PythonConstant => node
                .child_by_field_name("left")
                .filter(|left| left.kind() == "identifier")
                .map(|name| (kind, name)),
        }
    }

    fn in_function(&self) -> bool {
        self.open.iter().any(|(index, _)| {
            self.definitions.get(*index).is_some_and(|definition| definition.kind.is_callable())
        })
    }
}

/// A definition with everything that belongs to it.
struct WholeRange {
    bytes: Range<usize>,
    first_row: usize,
    last_row: usize,
    signature_start: usize,
}

fn is_function(node: Node<'_>) -> bool {
    matches!(node.kind(), "arrow_function" | "function_expression" | "generator_function")
}

/// The declared name inside nested declarators, and whether it is a function's.
fn declared(node: Node<'_>) -> Option<(Node<'_>, bool)> {
    let mut present = node.child_by_field_name("declarator")?;
    let mut function = false;
    for _ in 0..MAX_DECLARATOR_DEPTH {
        match present.kind() {
            "identifier"
            | "field_identifier"
            | "type_identifier"
            | "qualified_identifier"
            | "destructor_name"
            | "operator_name"
            | "template_function"
            | "operator_cast" => return Some((present, function)),
            "function_declarator" => function = true,
            _ => {}
        }
        present = present.child_by_field_name("declarator").or_else(|| present.named_child(0))?;
    }
    None
}

#[cfg(test)]
#[path = "outline_tests.rs"]
mod tests;
