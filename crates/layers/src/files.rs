//! The imports between the files of a crate, and between the items of façades.
//!
//! A façade is a file that declares child modules. Often it holds both what its children share and what uses them, and neither is a cycle.
//! So each of its items counts as a file of its own, and its re-exports count for nothing.

use std::collections::BTreeSet;

use crate::scan::{Module, ModulePath, PathPlace};
use crate::source::SourceTree;

/// A file, or an item of a façade.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SourceFile {
    Whole(String),
    Item { file: String, item: String },
}

/// An import between two files or items, re-exports followed.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FileEdge {
    pub(crate) from: SourceFile,
    pub(crate) to: SourceFile,
}

impl SourceFile {
    pub(crate) fn file(&self) -> &String {
        match self {
            Self::Whole(file) | Self::Item { file, .. } => file,
        }
    }

    /// The name in a report: `room/mod.rs` or `room/mod.rs#Item`.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Whole(file) => file.clone(),
            Self::Item { file, item } => format!("{file}#{item}"),
        }
    }
}

/// Every import of a crate.
pub(crate) fn file_edges(tree: &SourceTree) -> BTreeSet<FileEdge> {
    let edges = Edges { tree, facades: facades(tree) };
    tree.modules.iter().flat_map(|(path, module)| edges.of_module(path, module)).collect()
}

/// The files that declare child modules with files of their own.
fn facades(tree: &SourceTree) -> BTreeSet<&String> {
    let parent = |path: &ModulePath| path.split_last().and_then(|(_, parent)| tree.modules.get(parent));
    let of_child = |(path, module): (&ModulePath, &Module)| {
        parent(path).filter(|parent| parent.file != module.file).map(|parent| &parent.file)
    };
    tree.modules.iter().filter_map(of_child).collect()
}

struct Edges<'a> {
    tree: &'a SourceTree,
    facades: BTreeSet<&'a String>,
}

impl Edges<'_> {
    fn of_module(&self, path: &ModulePath, module: &Module) -> Vec<FileEdge> {
        let mut edges = Vec::new();
        let is_facade = self.facades.contains(&module.file);
        let mut add = |from: &[SourceFile], to: &[SourceFile]| {
            for from in from {
                edges.extend(to.iter().map(|to| FileEdge { from: from.clone(), to: to.clone() }));
            }
        };
        for used in &module.paths {
            let item = match &used.place {
                PathPlace::Item(item) => Some(item.as_str()),
                // What only hands names on imports nothing, and an import that items name is an import of theirs.
                PathPlace::Reexport if is_facade => continue,
                PathPlace::Import(Some(name)) if is_facade && is_named(module, name) => continue,
                PathPlace::Reexport | PathPlace::Import(_) => None,
            };
            add(&self.nodes(path, item), &self.targets(path, &used.segments));
        }
        for (item, word) in module.words.iter().filter(|_| is_facade) {
            let from = self.nodes(path, Some(item));
            if module.items.contains(word) {
                add(&from, &self.nodes(path, Some(word)));
            } else if module.aliases.contains_key(word) {
                add(&from, &self.targets(path, std::slice::from_ref(word)));
            }
        }
        edges
    }

    /// What an item of a module is in the graph; without an item, all that the module's file is.
    fn nodes(&self, path: &ModulePath, item: Option<&str>) -> Vec<SourceFile> {
        let Some(module) = self.tree.modules.get(path) else { return Vec::new() };
        let file = module.file.clone();
        if !self.facades.contains(&file) {
            return vec![SourceFile::Whole(file)];
        }
        let one = |item: &str| SourceFile::Item { file: file.clone(), item: item.to_owned() };
        // A module within a façade's file is an item there.
        let around =
            path.split_last().and_then(|(name, parent)| Some((name, self.tree.modules.get(parent)?)));
        match (around, item) {
            (Some((name, parent)), _) if parent.file == file => vec![one(name)],
            (_, Some(item)) => vec![one(item)],
            (_, None) => module.items.iter().map(|item| one(item)).collect(),
        }
    }

    /// What a path leads to. The name of a façade alone imports nothing: the paths through it count.
    fn targets(&self, from: &ModulePath, segments: &[String]) -> Vec<SourceFile> {
        let Some((path, rest)) = self.tree.reach(from, segments, true) else { return Vec::new() };
        let Some(module) = self.tree.modules.get(&path) else { return Vec::new() };
        match rest.first() {
            None if self.facades.contains(&module.file) => Vec::new(),
            item => self.nodes(&path, item.map(String::as_str).filter(|&item| module.items.contains(item))),
        }
    }
}

/// True if an item of the module names something: a trait that is only imported for its methods is not named.
fn is_named(module: &Module, name: &str) -> bool {
    module.words.iter().any(|(_, word)| word == name)
}
