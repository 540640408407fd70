//! Rust.

use sandyard_syntax::{DefinitionKind, Node, TreeStep};

use crate::scan::found::{FoundEntry, FoundImport, FoundName, FoundRoute, ImportForm, MAX_PATH};
use crate::scan::state::{ScanState, line_of};
use crate::scan::words::first_sentence;

/// Attributes and functions that add a route.
const ROUTE_VERBS: &[&str] = &["get", "post", "put", "delete", "patch", "head", "options", "any"];
/// Leaves of one `use` statement.
const MAX_LEAVES: usize = 500;

pub(super) fn visit(state: &mut ScanState<'_>, node: Node<'_>) -> TreeStep {
    if state.done == Some(node.id()) {
        return TreeStep::Skip;
    }
    match node.kind() {
        "source_file" => inner_doc(state, node),
        "use_declaration" => return use_declaration(state, node),
        "extern_crate_declaration" => {
            let name = state.field(node, "name");
            let alias = state.field(node, "alias");
            let alias = if alias.is_empty() { None } else { Some(alias) };
            state.scan.imports.push(FoundImport {
                line: line_of(node),
                symbol: name.clone(),
                module: name,
                alias,
                ..FoundImport::default()
            });
            return TreeStep::Skip;
        }
        "attribute_item" => {
            attribute(state, node);
            return TreeStep::Skip;
        }
        "mod_item" => child_module(state, node),
        "function_item" => main_function(state, node),
        "call_expression" => call(state, node),
        "macro_invocation" => {
            let name = node.child_by_field_name("macro");
            mention_path(state, name, true);
        }
        "token_tree" => token_paths(state, node),
        "scoped_identifier" | "scoped_type_identifier" => {
            mention_path(state, Some(node), false);
            return TreeStep::Skip;
        }
        "identifier" | "type_identifier" => state.mention(vec![state.name(node)], node, false),
        _ => {}
    }
    TreeStep::Descend
}

fn inner_doc(state: &mut ScanState<'_>, node: Node<'_>) {
    let mut cursor = node.walk();
    let mut text = String::new();
    for child in node.named_children(&mut cursor).take(40) {
        let comment = state.parsed.text(child);
        if child.kind() != "line_comment" || !comment.starts_with("//!") {
            break;
        }
        text.push_str(comment.trim_end());
        text.push('\n');
    }
    state.scan.doc = first_sentence(&text);
}

/// Names of the modules inside the file around a node.
fn inside(state: &ScanState<'_>, node: Node<'_>) -> Vec<String> {
    let mut names = Vec::new();
    let mut present = state.within(node);
    while let Some(index) = present {
        let definition = &state.outline.definitions[index];
        // A module's own declaration lies in its range, too.
        if definition.kind == DefinitionKind::Module {
            names.push(definition.name.clone());
        }
        present = definition.parent;
    }
    names.reverse();
    names
}

fn use_declaration(state: &mut ScanState<'_>, node: Node<'_>) -> TreeStep {
    let Some(argument) = node.child_by_field_name("argument") else { return TreeStep::Skip };
    let mut cursor = node.walk();
    let exported = node.named_children(&mut cursor).any(|child| child.kind() == "visibility_modifier");
    let inside = inside(state, node);
    let mut pending = vec![(argument, Vec::<String>::new())];
    let mut leaves = 0;
    while let Some((present, prefix)) = pending.pop() {
        leaves += 1;
        if leaves > MAX_LEAVES {
            break;
        }
        match present.kind() {
            "use_list" => {
                let mut cursor = present.walk();
                let children: Vec<Node<'_>> = present.named_children(&mut cursor).collect();
                pending.extend(children.into_iter().rev().map(|child| (child, prefix.clone())));
            }
            "scoped_use_list" => {
                let path =
                    present.child_by_field_name("path").map(|path| segments(state, path)).unwrap_or_default();
                if let Some(list) = present.child_by_field_name("list") {
                    pending.push((list, [prefix, path].concat()));
                }
            }
            "use_as_clause" => {
                let alias = state.field(present, "alias");
                if let Some(path) = present.child_by_field_name("path") {
                    leaf(state, path, prefix, Some(alias), exported, &inside);
                }
            }
            "use_wildcard" => {
                if let Some(path) = present.named_child(0) {
                    let full = [prefix, segments(state, path)].concat();
                    push_use(state, last(path), full, None, exported, &inside);
                }
            }
            "identifier" | "self" | "crate" | "super" | "scoped_identifier" | "metavariable" => {
                leaf(state, present, prefix, None, exported, &inside);
            }
            _ => {}
        }
    }
    TreeStep::Skip
}

fn leaf(
    state: &mut ScanState<'_>,
    node: Node<'_>,
    prefix: Vec<String>,
    alias: Option<String>,
    exported: bool,
    inside: &[String],
) {
    let mut path = [prefix, segments(state, node)].concat();
    // `a::{self}` names `a`.
    if path.len() > 1 && path.last().is_some_and(|name| name == "self") {
        path.pop();
    }
    let local = alias.or_else(|| path.last().cloned()).unwrap_or_default();
    push_use(state, last(node), path, Some(local), exported, inside);
}

/// An import whose module is the whole path; the last name is bound, or all names are.
fn push_use(
    state: &mut ScanState<'_>,
    at: Node<'_>,
    path: Vec<String>,
    local: Option<String>,
    exported: bool,
    inside: &[String],
) {
    let symbol = state.name(at);
    let name = path.last().cloned().unwrap_or_default();
    let names = local.map(|local| FoundName { name, local, line: line_of(at) });
    state.scan.imports.push(FoundImport {
        module: path.join("::"),
        line: line_of(at),
        symbol,
        wildcard: names.is_none(),
        names: names.into_iter().collect(),
        exported,
        inside: inside.to_vec(),
        ..FoundImport::default()
    });
}

fn attribute(state: &mut ScanState<'_>, node: Node<'_>) {
    let text = state.name(node);
    let verb = text.strip_prefix("#[").and_then(|rest| rest.split_once('(')).map(|(verb, _)| verb);
    let route = text.split('"').nth(1).filter(|path| path.starts_with('/'));
    if let (Some(verb), Some(route)) = (verb.filter(|verb| ROUTE_VERBS.contains(verb)), route) {
        let found = FoundRoute {
            line: line_of(node),
            method: verb.to_ascii_uppercase(),
            path: route.to_owned(),
            handler: None,
        };
        state.scan.routes.push(found);
    }
    state.attribute = Some((text, node.end_position().row));
}

fn child_module(state: &mut ScanState<'_>, node: Node<'_>) {
    if node.child_by_field_name("body").is_some() {
        return;
    }
    let Some(name) = node.child_by_field_name("name") else { return };
    let symbol = state.name(name);
    let path = state
        .attribute
        .take()
        .filter(|(text, row)| text.starts_with("#[path") && node.start_position().row <= row + 1);
    let path = path.and_then(|(text, _)| text.split('"').nth(1).map(str::to_owned));
    let inside = inside(state, node);
    state.scan.imports.push(FoundImport {
        module: path.unwrap_or_else(|| symbol.clone()),
        line: line_of(name),
        alias: Some(symbol.clone()),
        symbol,
        inside,
        form: ImportForm::ChildModule,
        ..FoundImport::default()
    });
}

fn main_function(state: &mut ScanState<'_>, node: Node<'_>) {
    let named = node.child_by_field_name("name").filter(|name| state.name(*name) == "main");
    if let Some(name) = named.filter(|name| {
        state.within(*name).is_some_and(|index| state.outline.definitions[index].parent.is_none())
    }) {
        state.scan.entries.push(FoundEntry { line: line_of(name), symbol: "main".to_owned() });
    }
}

fn call(state: &mut ScanState<'_>, node: Node<'_>) {
    let Some(function) = node.child_by_field_name("function") else { return };
    let inner = if function.kind() == "generic_function" {
        function.child_by_field_name("function").unwrap_or(function)
    } else {
        function
    };
    if inner.kind() == "field_expression" {
        method_call(state, node, inner);
        return;
    }
    if let Some(path) = path_of(state, inner) {
        state.done = Some(function.id());
        state.mention(path, last(inner), true);
    }
}

fn method_call(state: &mut ScanState<'_>, call: Node<'_>, function: Node<'_>) {
    let (Some(value), Some(field)) =
        (function.child_by_field_name("value"), function.child_by_field_name("field"))
    else {
        return;
    };
    let method = state.name(field);
    if value.kind() == "self" {
        state.mention(vec!["self".to_owned(), method.clone()], field, true);
    }
    let arguments = call.child_by_field_name("arguments").filter(|_| method == "route");
    let Some(arguments) = arguments else { return };
    let route = arguments.named_child(0).filter(|first| first.kind() == "string_literal");
    let Some(route) = route else { return };
    let (Some(text), Some(answer)) = (state.literal(route), arguments.named_child(1)) else { return };
    let verb = answer.child_by_field_name("function").filter(|_| answer.kind() == "call_expression");
    let verb =
        verb.and_then(|verb| path_of(state, verb)).and_then(|path| path.last().cloned()).unwrap_or_default();
    let handler = answer.child_by_field_name("arguments").and_then(|arguments| arguments.named_child(0));
    let handler = handler.and_then(|handler| path_of(state, handler)).and_then(|path| path.last().cloned());
    if text.starts_with('/') {
        let method =
            if ROUTE_VERBS.contains(&verb.as_str()) { verb.to_ascii_uppercase() } else { "ANY".to_owned() };
        state.scan.routes.push(FoundRoute { line: line_of(route), method, path: text, handler });
    }
}

fn mention_path(state: &mut ScanState<'_>, node: Option<Node<'_>>, call: bool) {
    let Some(node) = node else { return };
    if let Some(path) = path_of(state, node) {
        state.done = Some(node.id());
        state.mention(path, last(node), call);
    }
}

/// Paths among the tokens of a macro's arguments, which have no structure of their own.
fn token_paths(state: &mut ScanState<'_>, node: Node<'_>) {
    let mut cursor = node.walk();
    let mut path: Vec<String> = Vec::new();
    let mut last: Option<Node<'_>> = None;
    let mut joined = false;
    for child in node.children(&mut cursor) {
        match child.kind() {
            "::" => joined = !path.is_empty(),
            "identifier" | "self" | "super" | "crate" => {
                if !joined {
                    path.clear();
                }
                // Bounded here, because tokens may go on for the whole file.
                if path.len() <= MAX_PATH {
                    path.push(state.name(child));
                }
                last = Some(child);
                joined = false;
            }
            kind => {
                let call = kind == "token_tree" && state.parsed.source.get(child.start_byte()) == Some(&b'(');
                if let Some(at) = last.take().filter(|_| path.len() > 1) {
                    state.mention(std::mem::take(&mut path), at, call);
                }
                path.clear();
                joined = false;
            }
        }
    }
}

fn segments(state: &ScanState<'_>, node: Node<'_>) -> Vec<String> {
    path_of(state, node).unwrap_or_default()
}

fn path_of(state: &ScanState<'_>, node: Node<'_>) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut present = node;
    for _ in 0..MAX_PATH * 2 {
        match present.kind() {
            "identifier" | "type_identifier" | "self" | "crate" | "super" | "metavariable" => {
                names.push(state.name(present));
                names.reverse();
                return Some(names);
            }
            "scoped_identifier" | "scoped_type_identifier" => {
                names.push(state.field(present, "name"));
                match present.child_by_field_name("path") {
                    Some(path) => present = path,
                    None => {
                        names.reverse();
                        return Some(names);
                    }
                }
            }
            "generic_type" => present = present.child_by_field_name("type")?,
            _ => return None,
        }
    }
    None
}

fn last(node: Node<'_>) -> Node<'_> {
    node.child_by_field_name("name").unwrap_or(node)
}
