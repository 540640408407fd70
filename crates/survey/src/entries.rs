//! Where execution begins: commands that manifests declare, and functions that languages start with.

use std::collections::{BTreeMap, BTreeSet};

use sandyard_explain::facts::{EntryFact, FileRole, FileUse, UseKind};
use sandyard_syntax::SourceLanguage;

use crate::manifests::DeclaredCommand;
use crate::resolve::TreeIndex;
use crate::scan::FoundEntry;

/// The entries of a tree, at most one for each file and symbol.
pub(crate) fn entries(index: &TreeIndex<'_>, uses: &[FileUse]) -> Vec<EntryFact> {
    let imports = uses.iter().filter(|one| one.from != one.to && one.kind == UseKind::Import);
    let imported: BTreeSet<usize> =
        imports.filter(|one| index.roles[one.from] == FileRole::Source).map(|one| one.to).collect();
    let mut found: BTreeMap<(usize, String), EntryFact> = BTreeMap::new();
    for command in &index.manifests.commands {
        if let Some(entry) = declared(index, command) {
            found.entry((entry.file, entry.symbol.clone())).or_insert(entry);
        }
    }
    for (file, scan) in index.scans.iter().enumerate() {
        for entry in scan.entries.iter().filter(|_| index.roles[file] == FileRole::Source) {
            let known = found.keys().any(|(known, _)| *known == file);
            // A file that a command starts needs no second entry for its guard.
            if !known && begins(index, file, entry) {
                let fact = implicit(index, file, entry);
                found.insert((file, entry.symbol.clone()), fact);
            }
        }
    }
    // A module that others import and that can also be run shows itself; it is no program unless nothing else is.
    let shows_itself = |entry: &EntryFact| entry.symbol == "__main__" && imported.contains(&entry.file);
    if found.values().any(|entry| !shows_itself(entry)) {
        found.retain(|_, entry| !shows_itself(entry));
    }
    found.into_values().collect()
}

/// The entry of a declared command, if its file is in the tree.
fn declared(index: &TreeIndex<'_>, command: &DeclaredCommand) -> Option<EntryFact> {
    let file = place(index, &command.place)?;
    let scan = &index.scans[file];
    let function = command.function.as_ref();
    let symbol = function.and_then(|function| scan.symbols.iter().find(|symbol| symbol.name == *function));
    let (line, name) = match symbol {
        Some(symbol) => (symbol.line, symbol.name.clone()),
        // Without a function the file itself is run, from its first line on.
        None => (1, String::new()),
    };
    Some(EntryFact {
        file,
        line,
        symbol: name,
        name: command.name.clone(),
        command: command.command.clone(),
        declared: command.declared.clone(),
    })
}

/// The file of a dotted module or a path.
fn place(index: &TreeIndex<'_>, place: &str) -> Option<usize> {
    if place.contains('/') || index.file(place).is_some() {
        return index.file(place).or_else(|| index.file(&format!("{place}.js")));
    }
    let path = place.replace('.', "/");
    let ends = [format!("{path}.py"), format!("{path}/__init__.py")];
    ends.iter().find_map(|end| index.files_ending(end).first().copied())
}

/// True if the mark of an entry really starts a program.
fn begins(index: &TreeIndex<'_>, file: usize, entry: &FoundEntry) -> bool {
    match index.scans[file].language {
        // Only the root of a binary starts with `main`.
        SourceLanguage::Rust => {
            index.rust().is_root(file)
                && !index.paths[file].ends_with("lib.rs")
                && !index.paths[file].ends_with("build.rs")
        }
        _ => entry.line > 0,
    }
}

fn implicit(index: &TreeIndex<'_>, file: usize, entry: &FoundEntry) -> EntryFact {
    let path = &index.paths[file];
    let stem = path.rsplit('/').next().unwrap_or(path).split('.').next().unwrap_or_default();
    let parent = path.rsplit('/').nth(1);
    let general = ["main", "__main__", "__init__", "index", "mod", "app", "Main"].contains(&stem);
    let name = match parent {
        Some("src") if general => index.manifests.package_of(path).unwrap_or_else(|| stem.to_owned()),
        Some(parent) if general => parent.to_owned(),
        _ => stem.to_owned(),
    };
    let command = match index.scans[file].language {
        SourceLanguage::Python if stem == "__main__" => path
            .rsplit_once('/')
            .map(|(folder, _)| format!("python -m {}", folder.trim_start_matches("src/").replace('/', "."))),
        // A file of a package imports its neighbours by names that only the package has.
        SourceLanguage::Python => Some(
            package_module(index, path)
                .map_or_else(|| format!("python {path}"), |module| format!("python -m {module}")),
        ),
        SourceLanguage::JavaScript => Some(format!("node {path}")),
        SourceLanguage::Go => {
            Some(format!("go run ./{}", path.rsplit_once('/').map_or("", |(folder, _)| folder)))
        }
        SourceLanguage::Rust if path == "src/main.rs" => Some("cargo run".to_owned()),
        SourceLanguage::Rust => Some(format!("cargo run --bin {name}")),
        _ => None,
    };
    EntryFact { file, line: entry.line, symbol: entry.symbol.clone(), name, command, declared: None }
}

/// The dotted name of a Python file that lies in a package.
fn package_module(index: &TreeIndex<'_>, path: &str) -> Option<String> {
    let is_package = |folder: &str| index.file(&format!("{folder}/__init__.py")).is_some();
    let (mut folder, _) = path.rsplit_once('/').filter(|(folder, _)| is_package(folder))?;
    while let Some((above, _)) = folder.rsplit_once('/').filter(|(above, _)| is_package(above)) {
        folder = above;
    }
    let top = folder.rsplit_once('/').map_or("", |(above, _)| above);
    let module = path.strip_prefix(top)?.trim_start_matches('/').strip_suffix(".py")?;
    Some(module.replace('/', "."))
}
