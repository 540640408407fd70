//! Java.

use sandyard_syntax::{Node, TreeStep};

use crate::scan::found::{FoundEntry, FoundImport, FoundRoute};
use crate::scan::state::{ScanState, line_of};

/// Annotations of Spring and JAX-RS that add a route, with the method.
const ROUTE_ANNOTATIONS: &[(&str, &str)] = &[
    ("GetMapping", "GET"),
    ("PostMapping", "POST"),
    ("PutMapping", "PUT"),
    ("DeleteMapping", "DELETE"),
    ("PatchMapping", "PATCH"),
    ("RequestMapping", "ANY"),
    ("Path", "ANY"),
];

pub(super) fn visit(state: &mut ScanState<'_>, node: Node<'_>) -> TreeStep {
    match node.kind() {
        "package_declaration" => {
            state.scan.package = node
                .named_child(node.named_child_count().saturating_sub(1) as u32)
                .map(|name| state.name(name));
            return TreeStep::Skip;
        }
        "import_declaration" => return import(state, node),
        "method_declaration" => main_method(state, node),
        "method_invocation" => {
            let object = node.child_by_field_name("object").filter(|object| object.kind() == "identifier");
            if let (Some(object), Some(name)) = (object, node.child_by_field_name("name")) {
                state.mention(vec![state.name(object), state.name(name)], name, true);
            }
        }
        "object_creation_expression" => {
            if let Some(created) =
                node.child_by_field_name("type").filter(|created| created.kind() == "type_identifier")
            {
                state.mention(vec![state.name(created)], created, true);
            }
        }
        "annotation" => route(state, node),
        "type_identifier" => state.mention(vec![state.name(node)], node, false),
        "identifier" => {
            let name = state.name(node);
            // Types begin with a capital; anything else is a variable or a method.
            if name.starts_with(char::is_uppercase) {
                state.mention(vec![name], node, false);
            }
        }
        _ => {}
    }
    TreeStep::Descend
}

fn import(state: &mut ScanState<'_>, node: Node<'_>) -> TreeStep {
    let mut cursor = node.walk();
    let mut module = None;
    let mut wildcard = false;
    let mut fixed = false;
    for child in node.children(&mut cursor) {
        match child.kind() {
            "scoped_identifier" | "identifier" => module = Some(child),
            "asterisk" => wildcard = true,
            "static" => fixed = true,
            _ => {}
        }
    }
    let Some(node) = module else { return TreeStep::Skip };
    let name = state.name(node);
    // A static import names a member; its class is what is imported.
    let module = if fixed && !wildcard {
        name.rsplit_once('.').map_or(name.as_str(), |(class, _)| class)
    } else {
        &name
    };
    let found = FoundImport {
        module: module.to_owned(),
        line: line_of(node),
        symbol: name.clone(),
        wildcard: wildcard && !fixed,
        ..FoundImport::default()
    };
    state.scan.imports.push(found);
    TreeStep::Skip
}

fn main_method(state: &mut ScanState<'_>, node: Node<'_>) {
    let Some(name) = node.child_by_field_name("name").filter(|name| state.name(*name) == "main") else {
        return;
    };
    let modifiers = node.named_child(0).filter(|first| first.kind() == "modifiers");
    if modifiers.is_some_and(|modifiers| state.name(modifiers).contains("static")) {
        state.scan.entries.push(FoundEntry { line: line_of(name), symbol: "main".to_owned() });
    }
}

fn route(state: &mut ScanState<'_>, node: Node<'_>) {
    let name = state.field(node, "name");
    let Some((_, method)) = ROUTE_ANNOTATIONS.iter().find(|(known, _)| *known == name) else { return };
    let Some(arguments) = node.child_by_field_name("arguments") else { return };
    let text = state.name(arguments);
    let Some(path) = text.split('"').nth(1) else { return };
    let handler = state.within(node).map(|index| state.outline.definitions[index].name.clone());
    let found =
        FoundRoute { line: line_of(node), method: (*method).to_owned(), path: path.to_owned(), handler };
    state.scan.routes.push(found);
}
