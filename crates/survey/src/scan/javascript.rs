//! JavaScript and TypeScript.

use sandyard_syntax::{Node, TreeStep};

use crate::scan::found::{FoundEntry, FoundImport, FoundName, FoundRoute, MAX_PATH};
use crate::scan::state::{ScanState, line_of};

/// Methods of routers that add a route.
const ROUTE_VERBS: &[&str] = &["get", "post", "put", "delete", "patch", "head", "options", "all"];
/// Names that routers have.
const ROUTERS: &[&str] = &["app", "router", "server", "api", "fastify", "route", "routes", "r", "hono"];

pub(super) fn visit(state: &mut ScanState<'_>, node: Node<'_>) -> TreeStep {
    if state.done == Some(node.id()) {
        return TreeStep::Skip;
    }
    match node.kind() {
        "import_statement" => return import(state, node),
        "export_statement" => {
            if let Some(source) = node.child_by_field_name("source") {
                export_from(state, node, source);
                return TreeStep::Skip;
            }
        }
        "variable_declarator" => require_binding(state, node),
        "call_expression" => call(state, node),
        "new_expression" => {
            let constructor = node.child_by_field_name("constructor");
            mention_path(state, constructor, true);
        }
        "jsx_opening_element" | "jsx_self_closing_element" => {
            let name = node.child_by_field_name("name");
            mention_path(state, name, true);
        }
        "member_expression" => {
            if let Some(path) = dotted(state, node) {
                state.mention(path, last(node), false);
                return TreeStep::Skip;
            }
        }
        "identifier" | "type_identifier" | "shorthand_property_identifier" => {
            state.mention(vec![state.name(node)], node, false);
        }
        _ => {}
    }
    TreeStep::Descend
}

fn import(state: &mut ScanState<'_>, node: Node<'_>) -> TreeStep {
    let mut cursor = node.walk();
    let clause = node.named_children(&mut cursor).find(|child| child.kind() == "import_require_clause");
    if let Some(clause) = clause {
        let Some(source) = clause.child_by_field_name("source") else { return TreeStep::Skip };
        let alias = clause.named_child(0).map(|name| state.name(name));
        push(state, source, |import| import.alias = alias);
        return TreeStep::Skip;
    }
    let Some(source) = node.child_by_field_name("source") else { return TreeStep::Skip };
    let mut cursor = node.walk();
    let clause = node.named_children(&mut cursor).find(|child| child.kind() == "import_clause");
    let mut names = Vec::new();
    let mut alias = None;
    if let Some(clause) = clause {
        let mut cursor = clause.walk();
        for child in clause.named_children(&mut cursor) {
            match child.kind() {
                "identifier" => names.push(FoundName {
                    name: "default".to_owned(),
                    local: state.name(child),
                    line: line_of(child),
                }),
                "namespace_import" => alias = child.named_child(0).map(|name| state.name(name)),
                "named_imports" => names.extend(specifiers(state, child, "import_specifier")),
                _ => {}
            }
        }
    }
    push(state, source, |import| {
        import.names = names;
        import.alias = alias;
    });
    TreeStep::Skip
}

fn specifiers(state: &ScanState<'_>, list: Node<'_>, kind: &str) -> Vec<FoundName> {
    let mut cursor = list.walk();
    let found = list.named_children(&mut cursor).filter(|child| child.kind() == kind).map(|child| {
        let name = state.field(child, "name");
        let alias = state.field(child, "alias");
        FoundName { local: if alias.is_empty() { name.clone() } else { alias }, name, line: line_of(child) }
    });
    found.collect()
}

fn export_from(state: &mut ScanState<'_>, node: Node<'_>, source: Node<'_>) {
    let mut cursor = node.walk();
    let clause = node.named_children(&mut cursor).find(|child| child.kind() == "export_clause");
    let names = clause.map(|clause| specifiers(state, clause, "export_specifier")).unwrap_or_default();
    let wildcard = clause.is_none();
    push(state, source, |import| {
        import.names = names;
        import.wildcard = wildcard;
        import.exported = true;
    });
}

/// Notes an import of the module that a string literal names.
fn push(state: &mut ScanState<'_>, source: Node<'_>, fill: impl FnOnce(&mut FoundImport)) {
    let Some(module) = state.literal(source).filter(|module| !module.is_empty()) else { return };
    let mut import =
        FoundImport { line: line_of(source), symbol: module.clone(), module, ..FoundImport::default() };
    fill(&mut import);
    state.scan.imports.push(import);
}

/// The string of `require("…")` or `import("…")`.
fn required<'tree>(state: &ScanState<'_>, call: Node<'tree>) -> Option<Node<'tree>> {
    let function = call.child_by_field_name("function")?;
    let known = function.kind() == "import"
        || state.name(function) == "require"
        || state.name(function) == "require.resolve";
    let first = call.child_by_field_name("arguments").filter(|_| known)?.named_child(0)?;
    matches!(first.kind(), "string" | "template_string").then_some(first)
}

/// `const { a, b: c } = require("…")`, also through `.member` and `await`.
fn require_binding(state: &mut ScanState<'_>, node: Node<'_>) {
    let Some(mut value) = node.child_by_field_name("value") else { return };
    let mut member = None;
    if value.kind() == "await_expression" {
        let Some(inner) = value.named_child(0) else { return };
        value = inner;
    }
    if value.kind() == "member_expression" {
        member = Some(state.field(value, "property"));
        let Some(object) = value.child_by_field_name("object") else { return };
        value = object;
    }
    if value.kind() != "call_expression" {
        return;
    }
    let (Some(source), Some(target)) = (required(state, value), node.child_by_field_name("name")) else {
        return;
    };
    let mut names = Vec::new();
    let mut alias = None;
    match (target.kind(), member) {
        ("identifier", None) => alias = Some(state.name(target)),
        ("identifier", Some(member)) => {
            names.push(FoundName { name: member, local: state.name(target), line: line_of(target) });
        }
        ("object_pattern", _) => {
            let mut cursor = target.walk();
            for child in target.named_children(&mut cursor) {
                let (name, local) = match child.kind() {
                    "shorthand_property_identifier_pattern" => (state.name(child), state.name(child)),
                    "pair_pattern" => (state.field(child, "key"), state.field(child, "value")),
                    _ => continue,
                };
                names.push(FoundName { name, local, line: line_of(child) });
            }
        }
        _ => {}
    }
    push(state, source, |import| {
        import.names = names;
        import.alias = alias;
    });
}

fn call(state: &mut ScanState<'_>, node: Node<'_>) {
    if let Some(source) = required(state, node) {
        // A call that initialises a variable was noted with its names.
        let noted = state.scan.imports.last().is_some_and(|last| {
            last.line == line_of(source) && Some(&last.module) == state.literal(source).as_ref()
        });
        if !noted {
            push(state, source, |_| {});
        }
        return;
    }
    let Some(function) = node.child_by_field_name("function") else { return };
    let Some(path) = dotted(state, function) else { return };
    route(state, node, &path);
    if path.last().is_some_and(|name| name == "listen") && path.len() == 2 {
        state.scan.entries.push(FoundEntry { line: line_of(last(function)), symbol: "listen".to_owned() });
    }
    mention_path(state, Some(function), true);
}

fn route(state: &mut ScanState<'_>, node: Node<'_>, path: &[String]) {
    let [receiver, verb] = path else { return };
    if !ROUTE_VERBS.contains(&verb.as_str()) || !ROUTERS.contains(&receiver.to_lowercase().as_str()) {
        return;
    }
    let Some(arguments) = node.child_by_field_name("arguments") else { return };
    let Some(first) = arguments.named_child(0).filter(|first| first.kind() == "string") else { return };
    let Some(text) = state.literal(first).filter(|text| text.starts_with('/')) else { return };
    let count = arguments.named_child_count() as u32;
    if count < 2 {
        return;
    }
    let handler = arguments.named_child(count - 1).and_then(|handler| dotted(state, handler));
    let method = if verb == "all" { "ANY".to_owned() } else { verb.to_ascii_uppercase() };
    let handler = handler.and_then(|path| path.last().cloned());
    state.scan.routes.push(FoundRoute { line: line_of(first), method, path: text, handler });
}

fn mention_path(state: &mut ScanState<'_>, node: Option<Node<'_>>, call: bool) {
    let Some(node) = node else { return };
    if let Some(path) = dotted(state, node) {
        state.done = Some(node.id());
        state.mention(path, last(node), call);
    }
}

fn dotted(state: &ScanState<'_>, node: Node<'_>) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut present = node;
    for _ in 0..MAX_PATH {
        match present.kind() {
            "identifier" | "this" | "type_identifier" => {
                names.push(state.name(present));
                names.reverse();
                return Some(names);
            }
            "member_expression" => {
                names.push(state.field(present, "property"));
                present = present.child_by_field_name("object")?;
            }
            _ => return None,
        }
    }
    None
}

fn last(node: Node<'_>) -> Node<'_> {
    node.child_by_field_name("property").unwrap_or(node)
}
