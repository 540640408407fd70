//! What the resolvers look up: files by path, symbols by name, packages by folder.

use std::collections::BTreeMap;

use sandyard_explain::facts::FileRole;
use sandyard_syntax::SourceLanguage;

use super::module_tree::ModuleTree;
use crate::manifests::TreeManifests;
use crate::scan::{FileScan, FoundAlias};

/// Places of assignments by the symbol around them and their name.
type AliasPlaces<'tree> = BTreeMap<(Option<usize>, &'tree str), Vec<usize>>;

/// All scans of a tree, with the ways to find something in them.
pub(crate) struct TreeIndex<'tree> {
    pub(crate) paths: &'tree [String],
    pub(crate) roles: &'tree [FileRole],
    pub(crate) scans: &'tree [FileScan],
    pub(crate) manifests: &'tree TreeManifests,
    by_path: BTreeMap<&'tree str, usize>,
    /// Files by their last path component.
    by_name: BTreeMap<&'tree str, Vec<usize>>,
    /// Symbols of each file by name, with their place in the list.
    symbols: Vec<BTreeMap<&'tree str, usize>>,
    /// Assignments of each file by place and name, as places in the list.
    aliases: Vec<AliasPlaces<'tree>>,
    /// Files of each folder by package name (Go), and of each package (Java).
    packages: BTreeMap<String, Vec<usize>>,
    /// Definitions of C functions in the whole tree.
    functions: BTreeMap<&'tree str, Vec<usize>>,
    rust: ModuleTree,
}

impl<'tree> TreeIndex<'tree> {
    pub(crate) fn new(
        paths: &'tree [String],
        roles: &'tree [FileRole],
        scans: &'tree [FileScan],
        manifests: &'tree TreeManifests,
    ) -> Self {
        let by_path = paths.iter().enumerate().map(|(file, path)| (path.as_str(), file)).collect();
        let mut by_name: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        let mut packages: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        let mut functions: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (file, scan) in scans.iter().enumerate() {
            by_name.entry(file_name(&paths[file])).or_default().push(file);
            if let Some(package) = &scan.package {
                let key = match scan.language {
                    SourceLanguage::Go => folder(&paths[file]).to_owned(),
                    _ => package.clone(),
                };
                packages.entry(format!("{:?} {key}", scan.language)).or_default().push(file);
            }
            if matches!(scan.language, SourceLanguage::C | SourceLanguage::Cpp) {
                for symbol in scan.symbols.iter().filter(|symbol| symbol.kind == "function" && symbol.public)
                {
                    functions.entry(&symbol.name).or_default().push(file);
                }
            }
        }
        let symbols = scans
            .iter()
            .map(|scan| {
                let mut names = BTreeMap::new();
                for (place, symbol) in scan.symbols.iter().enumerate() {
                    names.entry(symbol.name.as_str()).or_insert(place);
                }
                names
            })
            .collect();
        let aliases = scans.iter().map(aliases_by_name).collect();
        Self {
            aliases,
            paths,
            roles,
            scans,
            manifests,
            by_path,
            by_name,
            symbols,
            packages,
            functions,
            rust: ModuleTree::default(),
        }
    }

    /// Adds the modules of Rust, which are found with the rest of the index.
    pub(super) fn set_rust(&mut self, rust: ModuleTree) {
        self.rust = rust;
    }

    pub(crate) fn file(&self, path: &str) -> Option<usize> {
        self.by_path.get(path).copied()
    }

    /// Files whose path is `end`, or ends with a slash and `end`.
    pub(crate) fn files_ending(&self, end: &str) -> Vec<usize> {
        let candidates = self.by_name.get(file_name(end)).map(Vec::as_slice).unwrap_or_default();
        let fits = |file: &&usize| {
            let path = &self.paths[**file];
            path == end || path.strip_suffix(end).is_some_and(|rest| rest.ends_with('/'))
        };
        candidates.iter().filter(fits).copied().collect()
    }

    /// Assignments to a name in one place of a file.
    pub(crate) fn aliases(&self, file: usize, within: Option<usize>, name: &str) -> Vec<&'tree FoundAlias> {
        let places = self.aliases[file].get(&(within, name)).map(Vec::as_slice).unwrap_or_default();
        places.iter().filter_map(|place| self.scans[file].aliases.get(*place)).collect()
    }

    /// True if a file defines a symbol.
    pub(crate) fn defines(&self, file: usize, name: &str) -> bool {
        self.symbols[file].contains_key(name)
    }

    /// True if a symbol is a class.
    pub(crate) fn is_class(&self, file: usize, name: &str) -> bool {
        let symbol = self.symbols[file].get(name).and_then(|place| self.scans[file].symbols.get(*place));
        symbol.is_some_and(|symbol| symbol.kind == "class")
    }

    /// True if a file only says that a function exists somewhere.
    pub(crate) fn only_declares(&self, file: usize, name: &str) -> bool {
        let symbol = self.symbols[file].get(name).and_then(|place| self.scans[file].symbols.get(*place));
        symbol.is_some_and(|symbol| symbol.kind == "declaration")
    }

    /// True if a symbol is a constant, whose call runs something else.
    pub(crate) fn is_constant(&self, file: usize, name: &str) -> bool {
        let symbol = self.symbols[file].get(name).and_then(|place| self.scans[file].symbols.get(*place));
        symbol.is_some_and(|symbol| symbol.kind == "constant")
    }

    /// Files of a package: of a folder (Go) or with a package clause (Java).
    pub(crate) fn package(&self, language: SourceLanguage, key: &str) -> &[usize] {
        self.packages.get(&format!("{language:?} {key}")).map(Vec::as_slice).unwrap_or_default()
    }

    /// The only file that defines a C function, if there is only one.
    pub(crate) fn function(&self, name: &str) -> Option<usize> {
        match self.functions.get(name).map(Vec::as_slice) {
            Some([file]) => Some(*file),
            _ => None,
        }
    }

    pub(crate) fn rust(&self) -> &ModuleTree {
        &self.rust
    }
}

fn aliases_by_name(scan: &FileScan) -> AliasPlaces<'_> {
    let mut found = AliasPlaces::new();
    for (place, alias) in scan.aliases.iter().enumerate() {
        found.entry((alias.within, alias.name.as_str())).or_default().push(place);
    }
    found
}

/// The folder of a path, empty for the first one.
pub(crate) fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The last component of a path.
pub(crate) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Joins a folder and a relative path with `.` and `..`. `None` if it leaves the tree.
pub(crate) fn join(folder: &str, relative: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}
