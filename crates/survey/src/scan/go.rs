//! Go.

use sandyard_syntax::{Node, TreeStep};

use crate::scan::found::{FoundEntry, FoundImport, FoundRoute};
use crate::scan::state::{ScanState, line_of};

/// Methods of routers that add a route.
const ROUTE_VERBS: &[&str] = &[
    "HandleFunc",
    "Handle",
    "GET",
    "POST",
    "PUT",
    "DELETE",
    "PATCH",
    "Get",
    "Post",
    "Put",
    "Delete",
    "Patch",
];

pub(super) fn visit(state: &mut ScanState<'_>, node: Node<'_>) -> TreeStep {
    if state.done == Some(node.id()) {
        return TreeStep::Skip;
    }
    match node.kind() {
        "package_clause" => {
            state.scan.package = node.named_child(0).map(|name| state.name(name));
            return TreeStep::Skip;
        }
        "import_spec" => return import(state, node),
        "function_declaration" => main_function(state, node),
        "call_expression" => call(state, node),
        "selector_expression" => {
            if let Some(path) = selected(state, node) {
                state.mention(path, last(node), false);
                return TreeStep::Skip;
            }
        }
        "qualified_type" => {
            let path = vec![state.field(node, "package"), state.field(node, "name")];
            if let Some(name) = node.child_by_field_name("name") {
                state.mention(path, name, false);
            }
            return TreeStep::Skip;
        }
        "parameter_declaration" | "variadic_parameter_declaration" | "var_spec" | "const_spec" => {
            locals(state, node)
        }
        "short_var_declaration" | "range_clause" => left_side(state, node),
        "keyed_element" => {
            // The key of a struct literal is a field, not a name of the package.
            state.done = node.named_child(0).map(|key| key.id());
        }
        "identifier" | "type_identifier" => state.mention(vec![state.name(node)], node, false),
        _ => {}
    }
    TreeStep::Descend
}

fn import(state: &mut ScanState<'_>, node: Node<'_>) -> TreeStep {
    let Some(path) = node.child_by_field_name("path") else { return TreeStep::Skip };
    let Some(module) = state.literal(path) else { return TreeStep::Skip };
    let alias = state.field(node, "name");
    state.scan.imports.push(FoundImport {
        line: line_of(path),
        symbol: module.clone(),
        module,
        wildcard: alias == ".",
        alias: if alias.is_empty() || alias == "." || alias == "_" { None } else { Some(alias) },
        ..FoundImport::default()
    });
    TreeStep::Skip
}

fn main_function(state: &mut ScanState<'_>, node: Node<'_>) {
    let name = node.child_by_field_name("name").filter(|name| state.name(*name) == "main");
    if let Some(name) = name.filter(|_| state.scan.package.as_deref() == Some("main")) {
        state.scan.entries.push(FoundEntry { line: line_of(name), symbol: "main".to_owned() });
    }
}

fn call(state: &mut ScanState<'_>, node: Node<'_>) {
    let Some(function) = node.child_by_field_name("function") else { return };
    let path = match function.kind() {
        "identifier" => Some(vec![state.name(function)]),
        "selector_expression" => selected(state, function),
        _ => None,
    };
    let Some(path) = path else { return };
    state.done = Some(function.id());
    route(state, node, &path);
    state.mention(path, last(function), true);
}

fn route(state: &mut ScanState<'_>, node: Node<'_>, path: &[String]) {
    let verb = path.last().map(String::as_str).unwrap_or_default();
    if path.len() < 2 || !ROUTE_VERBS.contains(&verb) {
        return;
    }
    let Some(arguments) = node.child_by_field_name("arguments") else { return };
    let Some(first) = arguments.named_child(0).filter(|first| first.kind() == "interpreted_string_literal")
    else {
        return;
    };
    let Some(text) = state.literal(first) else { return };
    // Since Go 1.22 a pattern may begin with the method.
    let (method, text) = match text.split_once(' ') {
        Some((method, rest)) => (method.to_owned(), rest.to_owned()),
        None if verb.starts_with("Handle") => ("ANY".to_owned(), text),
        None => (verb.to_ascii_uppercase(), text),
    };
    if !text.starts_with('/') || arguments.named_child_count() < 2 {
        return;
    }
    let handler = arguments
        .named_child(1)
        .filter(|handler| handler.kind() == "identifier")
        .map(|handler| state.name(handler));
    state.scan.routes.push(FoundRoute { line: line_of(first), method, path: text, handler });
}

fn locals(state: &mut ScanState<'_>, node: Node<'_>) {
    if matches!(node.kind(), "var_spec" | "const_spec") && state.outside_functions(node) {
        return;
    }
    let mut cursor = node.walk();
    let names: Vec<String> =
        node.children_by_field_name("name", &mut cursor).map(|name| state.name(name)).collect();
    state.scan.locals.extend(names);
}

fn left_side(state: &mut ScanState<'_>, node: Node<'_>) {
    let Some(left) = node.child_by_field_name("left") else { return };
    let mut cursor = left.walk();
    let names: Vec<String> = left
        .named_children(&mut cursor)
        .filter(|child| child.kind() == "identifier")
        .map(|child| state.name(child))
        .collect();
    state.scan.locals.extend(names);
}

/// `package.Name`; longer selections are fields of values, whose types are not known.
fn selected(state: &ScanState<'_>, node: Node<'_>) -> Option<Vec<String>> {
    let operand = node.child_by_field_name("operand").filter(|operand| operand.kind() == "identifier")?;
    Some(vec![state.name(operand), state.field(node, "field")])
}

fn last(node: Node<'_>) -> Node<'_> {
    node.child_by_field_name("field").unwrap_or(node)
}
