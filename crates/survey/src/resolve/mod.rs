//! Connects what files mention with the files that define it.
//!
//! Each language turns its imports into links and bindings: which name of the file stands for which file or symbol.
//! Mentions are then resolved through these bindings, the same way for all languages. A name that could mean two
//! things is left alone: a use that is not certain is not a fact.

mod bindings;
mod c;
mod calls;
mod go;
mod index;
mod java;
mod javascript;
mod lines;
mod mentions;
mod module_tree;
mod python;
mod python_names;
mod rust;

use std::collections::BTreeMap;

use bindings::FileLinks;
pub(crate) use index::TreeIndex;
use sandyard_explain::facts::{FileUse, LibraryUse, UseKind};
use sandyard_syntax::SourceLanguage;

/// Finds the modules of Rust with the rest of an index, and adds them to it.
pub(crate) fn add_modules(index: &mut TreeIndex<'_>) {
    let modules = module_tree::ModuleTree::build(index);
    index.set_rust(modules);
}

/// Turns the imports of one file into links.
type LinkFunction = fn(&TreeIndex<'_>, usize) -> FileLinks;

fn linker(language: SourceLanguage) -> LinkFunction {
    match language {
        SourceLanguage::Python => python::link,
        SourceLanguage::JavaScript | SourceLanguage::TypeScript | SourceLanguage::Tsx => javascript::link,
        SourceLanguage::Rust => rust::link,
        SourceLanguage::Go => go::link,
        SourceLanguage::Java => java::link,
        SourceLanguage::C | SourceLanguage::Cpp => c::link,
        _ => lines::link,
    }
}

/// Uses and libraries of a whole tree.
pub(crate) struct ResolvedTree {
    pub(crate) uses: Vec<FileUse>,
    pub(crate) libraries: Vec<LibraryUse>,
}

/// Resolves all imports and mentions.
pub(crate) fn resolve(index: &TreeIndex<'_>) -> ResolvedTree {
    let links: Vec<FileLinks> =
        (0..index.scans.len()).map(|file| linker(index.scans[file].language)(index, file)).collect();
    let mut uses = Vec::new();
    for (from, links) in links.iter().enumerate() {
        uses.extend(links.uses.iter().filter(|link| link.to != from).map(|link| FileUse {
            from,
            to: link.to,
            kind: UseKind::Import,
            line: link.line,
            symbol: link.symbol.clone(),
            from_symbol: None,
            to_symbol: link.to_symbol.clone(),
        }));
    }
    let known = calls::known_calls(index, &links);
    for from in 0..index.scans.len() {
        uses.extend(mentions::resolve(index, &links, from, &known));
    }
    uses.extend(known.uses);
    uses.sort();
    uses.dedup_by(|next, kept| same_use(next, kept));
    ResolvedTree { uses, libraries: libraries(&links) }
}

/// One use for each pair of symbols and kind: the first line is the evidence.
fn same_use(left: &FileUse, right: &FileUse) -> bool {
    let key = |one: &FileUse| (one.from, one.to, one.kind);
    key(left) == key(right)
        && left.from_symbol == right.from_symbol
        && left.to_symbol == right.to_symbol
        && left.line == right.line
}

fn libraries(links: &[FileLinks]) -> Vec<LibraryUse> {
    let mut found: BTreeMap<String, LibraryUse> = BTreeMap::new();
    for (file, links) in links.iter().enumerate() {
        let mut names: BTreeMap<&str, (u32, bool)> = BTreeMap::new();
        for (name, line, standard) in &links.libraries {
            names.entry(name).or_insert((*line, *standard));
        }
        for (name, (line, standard)) in names {
            let library = found.entry(name.to_owned()).or_insert_with(|| LibraryUse {
                name: name.to_owned(),
                standard,
                file,
                line,
                files: 0,
            });
            library.files += 1;
        }
    }
    found.into_values().collect()
}
