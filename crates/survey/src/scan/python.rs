//! Python.

use sandyard_syntax::{Node, TreeStep};

use crate::scan::code::file_code;
use crate::scan::found::{FoundEntry, FoundImport, FoundName, FoundRoute, MAX_PATH};
use crate::scan::state::{ScanState, line_of};
use crate::scan::words::first_sentence;

/// Names of decorators and methods that add a route.
const ROUTE_VERBS: &[&str] = &["get", "post", "put", "delete", "patch", "head", "options", "websocket"];

pub(super) fn visit(state: &mut ScanState<'_>, node: Node<'_>) -> TreeStep {
    if state.done == Some(node.id()) {
        return TreeStep::Skip;
    }
    match node.kind() {
        "module" => {
            docstring(state, node);
            state.scan.code = Some(file_code(state, node));
        }
        "import_statement" => return import(state, node),
        "import_from_statement" | "future_import_statement" => return import_from(state, node),
        "if_statement" => main_guard(state, node),
        "decorated_definition" => routes(state, node),
        "call" => call(state, node),
        "assignment" => assignment(state, node),
        "for_statement" | "for_in_clause" | "named_expression" | "with_item" | "as_pattern" => {
            rebound(state, node)
        }
        "parameters" | "lambda_parameters" => parameters(state, node),
        "class_definition" => bases(state, node),
        "attribute" => {
            if let Some(path) = dotted(state, node) {
                state.mention(path, last(node), false);
                return TreeStep::Skip;
            }
        }
        "keyword_argument" => state.done = node.child_by_field_name("name").map(|name| name.id()),
        "identifier" => state.mention(vec![state.name(node)], node, false),
        _ => {}
    }
    TreeStep::Descend
}

fn docstring(state: &mut ScanState<'_>, node: Node<'_>) {
    let mut cursor = node.walk();
    let first = node.named_children(&mut cursor).find(|child| child.kind() != "comment");
    let text =
        first.filter(|first| first.kind() == "expression_statement").and_then(|first| first.named_child(0));
    if let Some(text) = text.filter(|text| text.kind() == "string") {
        let bytes = state.parsed.source.get(text.byte_range()).unwrap_or_default();
        state.scan.doc = first_sentence(&String::from_utf8_lossy(&bytes[..bytes.len().min(1000)]));
    }
}

fn import(state: &mut ScanState<'_>, node: Node<'_>) -> TreeStep {
    let mut cursor = node.walk();
    let children: Vec<Node<'_>> = node.children_by_field_name("name", &mut cursor).collect();
    for child in children {
        let (module, alias) = match child.kind() {
            "aliased_import" => (child.child_by_field_name("name"), Some(state.field(child, "alias"))),
            _ => (Some(child), None),
        };
        let Some(module) = module else { continue };
        let name = state.name(module);
        state.scan.imports.push(FoundImport {
            line: line_of(module),
            symbol: name.clone(),
            module: name,
            alias,
            ..FoundImport::default()
        });
    }
    TreeStep::Skip
}

fn import_from(state: &mut ScanState<'_>, node: Node<'_>) -> TreeStep {
    let Some(module) = node.child_by_field_name("module_name") else { return TreeStep::Skip };
    let text = state.name(module);
    let name = text.trim_start_matches('.');
    let mut found = FoundImport {
        level: text.chars().take_while(|letter| *letter == '.').count(),
        module: name.chars().filter(|letter| !letter.is_whitespace()).collect(),
        line: line_of(module),
        symbol: if name.is_empty() { text.clone() } else { name.to_owned() },
        ..FoundImport::default()
    };
    let mut cursor = node.walk();
    for child in node.children(&mut cursor) {
        if child.kind() == "wildcard_import" {
            found.wildcard = true;
        }
    }
    let mut cursor = node.walk();
    for child in node.children_by_field_name("name", &mut cursor) {
        let (name, local) = match child.kind() {
            "aliased_import" => (state.field(child, "name"), state.field(child, "alias")),
            _ => (state.name(child), state.name(child)),
        };
        found.names.push(FoundName { name, local, line: line_of(child) });
    }
    state.scan.imports.push(found);
    TreeStep::Skip
}

fn main_guard(state: &mut ScanState<'_>, node: Node<'_>) {
    let Some(condition) = node.child_by_field_name("condition") else { return };
    let text = state.name(condition);
    if text.contains("__name__") && text.contains("__main__") && state.within(node).is_none() {
        state.scan.entries.push(FoundEntry { line: line_of(condition), symbol: "__main__".to_owned() });
    }
}

fn call(state: &mut ScanState<'_>, node: Node<'_>) {
    let Some(function) = node.child_by_field_name("function") else { return };
    let Some(path) = dotted(state, function) else { return };
    state.done = Some(function.id());
    table_route(state, node, &path);
    state.mention(path, last(function), true);
}

/// What an assignment to a name or to an attribute of `self` gives it.
fn assignment(state: &mut ScanState<'_>, node: Node<'_>) {
    let Some(left) = node.child_by_field_name("left") else { return };
    let Some(target) =
        dotted(state, left).filter(|target| target.len() == 1 || target[0] == "self" && target.len() == 2)
    else {
        return rebound(state, node);
    };
    let right = node.child_by_field_name("right");
    let value = right.and_then(|right| match right.kind() {
        "call" => Some((dotted(state, right.child_by_field_name("function")?)?, true)),
        _ => Some((dotted(state, right)?, false)),
    });
    let (path, made) = value.unwrap_or_default();
    state.alias(target.join("."), node, path, made);
}

/// Names that get a value which is not known.
fn rebound(state: &mut ScanState<'_>, node: Node<'_>) {
    let target = ["left", "name", "alias"].iter().find_map(|field| node.child_by_field_name(field));
    let Some(target) = target else { return };
    let mut cursor = target.walk();
    let names: Vec<Node<'_>> = std::iter::once(target)
        .chain(target.named_children(&mut cursor))
        .filter(|name| name.kind() == "identifier")
        .collect();
    for name in names {
        let text = state.name(name);
        state.alias(text, node, Vec::new(), false);
    }
}

fn parameters(state: &mut ScanState<'_>, node: Node<'_>) {
    let mut cursor = node.walk();
    let children: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
    for child in children {
        let name = child.child_by_field_name("name").unwrap_or(child);
        let name = if name.kind() == "identifier" {
            Some(name)
        } else {
            name.named_child(0).filter(|inner| inner.kind() == "identifier")
        };
        if let Some(name) = name {
            let text = state.name(name);
            state.alias(text, node, Vec::new(), false);
        }
    }
}

fn bases(state: &mut ScanState<'_>, node: Node<'_>) {
    let (Some(list), Some(name)) =
        (node.child_by_field_name("superclasses"), node.child_by_field_name("name"))
    else {
        return;
    };
    let Some(class) = state.within(name) else { return };
    let mut cursor = list.walk();
    let found: Vec<Vec<String>> =
        list.named_children(&mut cursor).filter_map(|base| dotted(state, base)).collect();
    state.scan.bases.extend(found.into_iter().map(|base| (class, base)));
}

/// Routes in tables: `path("…", view)` of Django and `add_get("…", handler)` of aiohttp.
fn table_route(state: &mut ScanState<'_>, node: Node<'_>, path: &[String]) {
    let verb = path.last().map(String::as_str).unwrap_or_default();
    let method = match verb {
        "path" | "re_path" if path.len() == 1 => "ANY",
        _ => match verb.strip_prefix("add_").filter(|rest| ROUTE_VERBS.contains(rest)) {
            Some(method) => method,
            None => return,
        },
    };
    let Some(arguments) = node.child_by_field_name("arguments") else { return };
    let Some(route) = arguments.named_child(0).filter(|first| first.kind() == "string") else { return };
    let Some(handler) = arguments.named_child(1).and_then(|handler| dotted(state, handler)) else { return };
    let Some(text) = state.literal(route) else { return };
    state.scan.routes.push(FoundRoute {
        line: line_of(route),
        method: method.to_ascii_uppercase(),
        path: text,
        handler: handler.last().cloned(),
    });
}

/// Routes of decorators, such as `@app.get("/users")`.
fn routes(state: &mut ScanState<'_>, node: Node<'_>) {
    let handler = node.child_by_field_name("definition").map(|definition| state.field(definition, "name"));
    let mut cursor = node.walk();
    for decorator in node.named_children(&mut cursor).filter(|child| child.kind() == "decorator") {
        let Some(call) = decorator.named_child(0).filter(|call| call.kind() == "call") else { continue };
        let path = call.child_by_field_name("function").and_then(|function| dotted(state, function));
        let Some(path) = path.filter(|path| path.len() >= 2) else { continue };
        let verb = path.last().map(String::as_str).unwrap_or_default();
        let Some(arguments) = call.child_by_field_name("arguments") else { continue };
        let Some(route) = arguments.named_child(0).filter(|first| first.kind() == "string") else { continue };
        let Some(text) = state.literal(route).filter(|text| text.starts_with('/') || text.is_empty()) else {
            continue;
        };
        let methods = match verb {
            "route" | "api_route" => methods_argument(state, arguments),
            verb if ROUTE_VERBS.contains(&verb) => verb.to_ascii_uppercase(),
            _ => continue,
        };
        state.scan.routes.push(FoundRoute {
            line: line_of(route),
            method: methods,
            path: text,
            handler: handler.clone(),
        });
    }
}

fn methods_argument(state: &ScanState<'_>, arguments: Node<'_>) -> String {
    let mut cursor = arguments.walk();
    let methods = arguments
        .named_children(&mut cursor)
        .filter(|child| child.kind() == "keyword_argument" && state.field(*child, "name") == "methods")
        .find_map(|child| child.child_by_field_name("value"));
    let text = methods.map(|methods| state.name(methods)).unwrap_or_default();
    let words: Vec<&str> =
        text.split(|letter: char| !letter.is_ascii_uppercase()).filter(|word| word.len() > 2).collect();
    if words.is_empty() { "GET".to_owned() } else { words.join(", ") }
}

/// The names of `a.b.c`, or `None` if it begins with anything but a name.
fn dotted(state: &ScanState<'_>, node: Node<'_>) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut present = node;
    for _ in 0..MAX_PATH {
        match present.kind() {
            "identifier" => {
                names.push(state.name(present));
                names.reverse();
                return Some(names);
            }
            "attribute" => {
                names.push(state.field(present, "attribute"));
                present = present.child_by_field_name("object")?;
            }
            _ => return None,
        }
    }
    None
}

/// The last name of a path, whose line is the evidence.
fn last(node: Node<'_>) -> Node<'_> {
    node.child_by_field_name("attribute").unwrap_or(node)
}
