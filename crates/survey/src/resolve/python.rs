//! Imports of Python.

use sandyard_syntax::SourceLanguage;

use crate::resolve::bindings::{BoundName, FileLinks};
use crate::resolve::index::{TreeIndex, folder};
use crate::resolve::python_names::STANDARD_MODULES;
use crate::scan::FoundImport;

pub(super) fn link(index: &TreeIndex<'_>, file: usize) -> FileLinks {
    let mut links = FileLinks::default();
    let bases = search_path(index, file);
    for import in &index.scans[file].imports {
        if import.names.is_empty() && !import.wildcard && import.level == 0 {
            plain(index, &bases, import, &mut links);
        } else {
            from_import(index, file, &bases, import, &mut links);
        }
    }
    links
}

/// Folders in which the first name of an absolute import is looked up, nearest first.
fn search_path(index: &TreeIndex<'_>, file: usize) -> Vec<String> {
    let mut base = folder(&index.paths[file]);
    let mut bases = vec![base.to_owned()];
    // Python finds the outermost package of a file from the folder that holds it.
    let is_package =
        |folder: &str| !folder.is_empty() && (module_file(index, &format!("{folder}/__init__")).is_some());
    if is_package(base) {
        bases.clear();
    }
    while is_package(base) {
        base = folder(base);
    }
    bases.push(base.to_owned());
    // Folders without `__init__` are packages, too, from wherever the program is started.
    while !base.is_empty() {
        base = folder(base);
        bases.push(base.to_owned());
    }
    bases.extend(["src", "lib", "python"].map(str::to_owned));
    bases.dedup();
    bases
}

fn module_file(index: &TreeIndex<'_>, path: &str) -> Option<usize> {
    index.file(&format!("{path}.py")).or_else(|| index.file(&format!("{path}.pyi")))
}

/// The file of a dotted name below a folder.
pub(super) fn module(index: &TreeIndex<'_>, base: &str, dotted: &str) -> Option<usize> {
    let path = dotted.replace('.', "/");
    let path = if base.is_empty() {
        path
    } else if path.is_empty() {
        base.to_owned()
    } else {
        format!("{base}/{path}")
    };
    module_file(index, &format!("{path}/__init__")).or_else(|| module_file(index, &path))
}

fn absolute(index: &TreeIndex<'_>, bases: &[String], dotted: &str) -> Option<usize> {
    let first = dotted.split('.').next().unwrap_or_default();
    // A standard module is shadowed only by a file where Python looks first.
    let standard = STANDARD_MODULES.contains(&first);
    bases.iter().take(if standard { 1 } else { bases.len() }).find_map(|base| module(index, base, dotted))
}

fn plain(index: &TreeIndex<'_>, bases: &[String], import: &FoundImport, links: &mut FileLinks) {
    let mut dotted = import.module.as_str();
    // `import a.b` may name an attribute of `a` that is no file.
    let found = loop {
        if let Some(found) = absolute(index, bases, dotted) {
            break Some(found);
        }
        match dotted.rsplit_once('.') {
            Some((shorter, _)) => dotted = shorter,
            None => break None,
        }
    };
    let Some(found) = found else {
        let first = import.module.split('.').next().unwrap_or_default();
        links.library(first, import.line, STANDARD_MODULES.contains(&first));
        return;
    };
    links.link(found, import.line, &import.symbol, None);
    links.bind(import.alias.as_deref().unwrap_or(dotted), BoundName::File(found));
}

fn from_import(
    index: &TreeIndex<'_>,
    file: usize,
    bases: &[String],
    import: &FoundImport,
    links: &mut FileLinks,
) {
    let base = relative_base(index, file, import.level);
    let find = |dotted: &str| match &base {
        Some(base) => module(index, base, dotted),
        None if import.level > 0 => None,
        None => absolute(index, bases, dotted),
    };
    let package = find(&import.module);
    let mut linked = import.wildcard || import.names.is_empty();
    for name in &import.names {
        let dotted = if import.module.is_empty() {
            name.name.clone()
        } else {
            format!("{}.{}", import.module, name.name)
        };
        // A symbol of the package hides a module of the same name only if it is assigned there; imports do not.
        let own = package.is_some_and(|package| index.defines(package, &name.name));
        match (find(&dotted), package) {
            (Some(module), _) if !own => {
                links.link(module, name.line, &name.name, None);
                links.bind(&name.local, BoundName::File(module));
            }
            (_, Some(package)) => {
                let symbol = index.defines(package, &name.name).then(|| name.name.clone());
                links.link(package, name.line, &name.name, symbol);
                links.bind(&name.local, BoundName::Symbol(package, name.name.clone()));
            }
            _ => linked = true,
        }
    }
    match package {
        Some(package) if import.wildcard => {
            links.link(package, import.line, &import.symbol, None);
            links.wildcards.push(package);
        }
        None if linked && import.level == 0 => {
            let first = import.module.split('.').next().unwrap_or_default();
            links.library(first, import.line, STANDARD_MODULES.contains(&first));
        }
        _ => {}
    }
}

/// The folder that the dots of a relative import name.
fn relative_base(index: &TreeIndex<'_>, file: usize, level: usize) -> Option<String> {
    if level == 0 || index.scans[file].language != SourceLanguage::Python {
        return None;
    }
    let mut base = folder(&index.paths[file]);
    for _ in 1..level {
        if base.is_empty() {
            return None;
        }
        base = folder(base);
    }
    Some(base.to_owned())
}
