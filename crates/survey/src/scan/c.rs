//! C and C++.

use sandyard_syntax::{Node, TreeStep};

use crate::scan::found::{FoundEntry, FoundImport, ImportForm};
use crate::scan::state::{ScanState, line_of};

pub(super) fn visit(state: &mut ScanState<'_>, node: Node<'_>) -> TreeStep {
    if state.done == Some(node.id()) {
        return TreeStep::Skip;
    }
    match node.kind() {
        "preproc_include" => return include(state, node),
        "function_definition" => main_function(state, node),
        "call_expression" => {
            let function = node.child_by_field_name("function");
            if let Some(function) =
                function.filter(|function| matches!(function.kind(), "identifier" | "qualified_identifier"))
            {
                state.done = Some(function.id());
                state.mention(vec![state.name(function)], function, true);
            }
        }
        "parameter_declaration" | "init_declarator" => {
            let name = node.child_by_field_name("declarator").filter(|name| name.kind() == "identifier");
            if let Some(name) = name.map(|name| state.name(name)) {
                state.scan.locals.insert(name);
            }
        }
        "type_identifier" | "identifier" => state.mention(vec![state.name(node)], node, false),
        _ => {}
    }
    TreeStep::Descend
}

fn include(state: &mut ScanState<'_>, node: Node<'_>) -> TreeStep {
    let Some(path) = node.child_by_field_name("path") else { return TreeStep::Skip };
    let text = state.name(path);
    let form = if path.kind() == "system_lib_string" { ImportForm::System } else { ImportForm::Plain };
    let module = text.trim_matches(['"', '<', '>']).to_owned();
    let found =
        FoundImport { line: line_of(path), symbol: module.clone(), module, form, ..FoundImport::default() };
    state.scan.imports.push(found);
    TreeStep::Skip
}

fn main_function(state: &mut ScanState<'_>, node: Node<'_>) {
    let Some(index) = state.within(node) else { return };
    let definition = &state.outline.definitions[index];
    if definition.name == "main" && definition.parent.is_none() {
        let line = definition.name_line;
        state.scan.entries.push(FoundEntry { line, symbol: "main".to_owned() });
    }
}
