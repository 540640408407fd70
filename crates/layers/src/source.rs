//! The modules of a crate and the paths between them.

use std::collections::BTreeMap;
use std::path::Path;

use crate::scan::{self, Module, ModulePath, PathUse, ReadFile, child};

/// The name of the crate's root module (`lib.rs` or `main.rs`) in a list of layers. A root that is not listed may import everything, and
/// no module may import from it, except what the root itself re-exports from a module below.
pub const ROOT: &str = "crate";

/// Renames that are followed for one path, so that two `use` of each other end.
const MAX_ALIASES: usize = 16;

/// Every module of a crate that is compiled without tests.
#[derive(Debug, Default)]
pub(crate) struct SourceTree {
    pub(crate) modules: BTreeMap<ModulePath, Module>,
}

/// An import between two modules, by the path as written.
#[derive(Debug)]
pub(crate) struct ModuleImport {
    pub(crate) from: String,
    pub(crate) to: String,
    /// `file:line: path`.
    pub(crate) place: String,
}

/// An import between two files, re-exports followed.
#[derive(Debug)]
pub(crate) struct FileImport {
    pub(crate) to: String,
    /// `file:line: path`.
    pub(crate) place: String,
}

impl SourceTree {
    /// Reads `lib.rs` and `main.rs` of a directory, whichever exist, and the modules that they declare.
    pub(crate) fn read(directory: &Path) -> Result<Self, String> {
        Self::read_with(&|path| {
            let path = directory.join(path);
            path.exists().then(|| {
                std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
            })
        })
    }

    /// As [`SourceTree::read`], with a function that returns a file's text, or `None` if the file does not exist.
    pub(crate) fn read_with(read: ReadFile<'_>) -> Result<Self, String> {
        let mut tree = Self::default();
        for root in ["lib.rs", "main.rs"] {
            if let Some(text) = read(Path::new(root)) {
                scan::scan_root(&mut tree.modules, read, Path::new(root), &text?)?;
            }
        }
        if tree.modules.is_empty() { Err("neither lib.rs nor main.rs was found".into()) } else { Ok(tree) }
    }

    /// All modules but the root, by their paths.
    pub(crate) fn modules(&self) -> impl Iterator<Item = String> {
        self.modules.keys().filter(|path| !path.is_empty()).map(|path| path.join("::"))
    }

    pub(crate) fn has_module(&self, path: &str) -> bool {
        self.modules.contains_key(&path.split("::").map(str::to_owned).collect::<Vec<_>>())
    }

    /// The files of a module and of all modules below it.
    pub(crate) fn files_below(&self, module: &str) -> impl Iterator<Item = String> {
        let prefix: ModulePath =
            module.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect();
        self.modules
            .iter()
            .filter(move |(path, _)| path.starts_with(&prefix))
            .map(|(_, module)| module.file.clone())
    }

    /// Imports by the module that the written path names. Only a path to a module around the importing one is followed through the
    /// re-exports there: the façade of a folder imports what is above its parts.
    pub(crate) fn module_imports(&self) -> Vec<ModuleImport> {
        let mut imports = Vec::new();
        for (from, module) in self.modules.iter().filter(|(path, _)| !path.is_empty()) {
            for used in &module.paths {
                let Some(to) = self.imported(from, &used.segments) else { continue };
                // `Item::new()` behind `use crate::b::Item` is the import of that `use`.
                let first = used.segments.first().and_then(|name| module.aliases.get(name));
                if first.is_some_and(|path| self.imported(from, path).as_ref() == Some(&to)) {
                    continue;
                }
                let to = if to.is_empty() { ROOT.to_owned() } else { to.join("::") };
                imports.push(ModuleImport { from: from.join("::"), to, place: place(module, used) });
            }
        }
        imports
    }

    /// The module that a written path names, as [`SourceTree::module_imports`] counts it.
    fn imported(&self, from: &[String], segments: &[String]) -> Option<ModulePath> {
        let to = self.resolve(from, segments, false)?;
        if to.len() == from.len() || !from.starts_with(&to) {
            return Some(to);
        }
        let (to, rest) = self.reach(from, segments, true)?;
        // What a module around this one hands on from another crate is no import of that module.
        let is_foreign = |name| self.modules.get(&to).is_some_and(|module| module.aliases.contains_key(name));
        if rest.first().is_some_and(is_foreign) { None } else { Some(to) }
    }

    /// Imports by the file that declares the imported item.
    pub(crate) fn file_imports(&self) -> Vec<FileImport> {
        let mut imports = Vec::new();
        for (from, module) in &self.modules {
            for used in &module.paths {
                let target = self.resolve(from, &used.segments, true).and_then(|to| self.modules.get(&to));
                if let Some(to) = target.filter(|to| to.file != module.file) {
                    imports.push(FileImport { to: to.file.clone(), place: place(module, used) });
                }
            }
        }
        imports
    }

    fn resolve(&self, from: &[String], segments: &[String], follow: bool) -> Option<ModulePath> {
        self.reach(from, segments, follow).map(|(module, _)| module)
    }

    /// The deepest module that a path reaches, and the rest of the path; `None` for paths to other crates. Names that `use` brought in
    /// are followed where the path begins, and with `follow` wherever it goes.
    pub(crate) fn reach(
        &self,
        from: &[String],
        segments: &[String],
        follow: bool,
    ) -> Option<(ModulePath, Vec<String>)> {
        let mut module = from.to_vec();
        let mut rest = segments.to_vec();
        for _ in 0..MAX_ALIASES {
            match rest.first().map(String::as_str)? {
                "crate" => {
                    module.clear();
                    rest.remove(0);
                }
                "self" => {
                    rest.remove(0);
                }
                "super" => {}
                name => {
                    // A path that begins with a name: a child module, a name brought in by `use`, or another crate.
                    if !self.modules.contains_key(&child(&module, name)) {
                        let alias = self.modules.get(&module)?.aliases.get(name)?;
                        if alias.first().map(String::as_str) == Some(name) {
                            return None;
                        }
                        rest.splice(0..1, alias.iter().cloned());
                        continue;
                    }
                }
            }
            while rest.first().is_some_and(|name| name == "super") {
                module.pop()?;
                rest.remove(0);
            }
            while let Some(next) =
                rest.first().map(|name| child(&module, name)).filter(|next| self.modules.contains_key(next))
            {
                module = next;
                rest.remove(0);
            }
            let alias = rest.first().and_then(|name| self.modules.get(&module)?.aliases.get(name));
            match alias.filter(|_| follow) {
                Some(alias) if self.leads_into_crate(&module, alias) => {
                    rest.splice(0..1, alias.iter().cloned());
                }
                _ => return Some((module, rest)),
            }
        }
        Some((module, rest))
    }

    fn leads_into_crate(&self, module: &[String], path: &[String]) -> bool {
        match path.first().map(String::as_str) {
            Some("crate" | "self" | "super") => true,
            Some(name) => self.modules.contains_key(&child(module, name)),
            None => false,
        }
    }
}

fn place(module: &Module, used: &PathUse) -> String {
    format!("{}:{}: {}", module.file, used.line, used.segments.join("::"))
}
