//! Checks that the modules of a crate import only downwards. Used by the `tests/layers.rs` of each crate, never by a product.
//!
//! `tokens` splits a source file into words, `scan` follows the `mod` declarations from `lib.rs` or `main.rs` and collects every path,
//! `items` names the items, `source` finds the modules that the paths lead to, `files` the files and items, and `graph` finds cycles. Comments, strings and items under `#[cfg(test)]` are
//! ignored. Nothing is expanded: a path that only a macro of another crate creates is not seen.

mod files;
mod graph;
mod items;
mod scan;
mod source;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

pub use source::ROOT;

use files::{FileEdge, file_edges};
use graph::Graph;
use source::SourceTree;

/// Checks the imports of a crate against its layers, lowest layer first.
///
/// A layer lists module paths such as `store` or `store::sqlite`. A module belongs to the longest listed path that contains it, and each
/// module must belong to one. A module may import from its own layer and from the layers below. Modules of one layer must not
/// import each other in a circle.
///
/// # Errors
///
/// Every violation as one line: an import of a higher layer with its place, a cycle, a module without a layer, a listed path that is
/// missing or listed twice, and a source file that can't be read.
pub fn check(source_directory: &Path, layers: &[&[&str]]) -> Result<(), Vec<String>> {
    let tree = SourceTree::read(source_directory).map_err(|problem| vec![problem])?;
    report(check_tree(&tree, layers))
}

/// Checks that no files below a module (`""`: of the whole crate) import each other in a circle.
///
/// A path through a re-export counts as an import of the file that declares the item, so `mod.rs` may collect the names of its children.
/// In a file that declares child modules each item counts as a file of its own: the contract that the children implement may stand beside
/// the function that picks one of them.
///
/// # Errors
///
/// Every cycle as one line, or a source file that can't be read.
pub fn check_files(source_directory: &Path, module: &str) -> Result<(), Vec<String>> {
    let tree = SourceTree::read(source_directory).map_err(|problem| vec![problem])?;
    report(check_tree_files(&tree, module))
}

/// Returns every import between two files of a crate, as `file:line: path -> file` lines. For people who untangle a crate.
///
/// # Errors
///
/// A source file that can't be read.
pub fn file_imports(source_directory: &Path) -> Result<Vec<String>, String> {
    let tree = SourceTree::read(source_directory)?;
    let describe = |import: &source::FileImport| format!("{} -> {}", import.place, import.to);
    Ok(tree.file_imports().iter().map(describe).collect())
}

fn report(violations: Vec<String>) -> Result<(), Vec<String>> {
    if violations.is_empty() { Ok(()) } else { Err(violations) }
}

fn check_tree(tree: &SourceTree, layers: &[&[&str]]) -> Vec<String> {
    let mut violations = Vec::new();
    let mut heights = BTreeMap::new();
    for (height, layer) in layers.iter().enumerate() {
        for &module in *layer {
            if heights.insert(module, height).is_some() {
                violations.push(format!("`{module}` is listed twice"));
            }
            if module != ROOT && !tree.has_module(module) {
                violations.push(format!("`{module}` is listed but no such module exists"));
            }
        }
    }
    for module in tree.modules().filter(|module| listed(module, &heights).is_none()) {
        violations.push(format!("`{module}` is in no layer"));
    }
    let mut graph = Graph::default();
    for import in tree.module_imports() {
        let Some(from) = listed(&import.from, &heights) else { continue };
        let Some(to) = listed(&import.to, &heights) else {
            if import.to == ROOT {
                violations.push(format!("{}: `{from}` imports from the crate's root", import.place));
            }
            continue;
        };
        if from == to {
            continue;
        }
        if heights.get(from) < heights.get(to) {
            violations.push(format!("{}: `{from}` imports from `{to}`, a higher layer", import.place));
        } else {
            graph.add(from, to);
        }
    }
    violations.extend(
        graph.cycles(|name| name).iter().map(|cycle| format!("modules in a circle: {}", cycle.join(" -> "))),
    );
    violations
}

fn check_tree_files(tree: &SourceTree, module: &str) -> Vec<String> {
    let files: BTreeSet<String> = tree.files_below(module).collect();
    let mut graph = Graph::default();
    for FileEdge { from, to } in file_edges(tree) {
        if files.contains(from.file()) && files.contains(to.file()) {
            graph.add(&from.name(), &to.name());
        }
    }
    // Items of one file may need each other.
    let file = |name| str::split(name, '#').next().unwrap_or(name);
    graph.cycles(file).iter().map(|cycle| format!("files in a circle: {}", cycle.join(" -> "))).collect()
}

/// The longest listed path that contains a module.
fn listed<'a>(module: &str, heights: &BTreeMap<&'a str, usize>) -> Option<&'a str> {
    let contains = |path: &&&str| {
        module.strip_prefix(**path).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    heights.keys().filter(contains).max_by_key(|path| path.len()).copied()
}

#[cfg(test)]
mod tests;
