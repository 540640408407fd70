//! Modules of Rust: which file is which module of which crate, and what a path names.

use crate::resolve::bindings::{BoundName, FileLinks};
use crate::resolve::index::{TreeIndex, file_name, folder, join};
use crate::resolve::mentions::follow;
use crate::resolve::module_tree::{ModulePlace, ModuleTree};
use crate::scan::{FoundMention, ImportForm};
use sandyard_syntax::SourceLanguage;

/// Crates that come with the language.
const STANDARD: &[&str] = &["std", "core", "alloc", "proc_macro", "test"];
/// Steps through `pub use`.
const MAX_HOPS: usize = 8;

impl ModuleTree {
    pub(crate) fn build(index: &TreeIndex<'_>) -> Self {
        let mut tree = Self::default();
        let rust = |file: &usize| index.scans[*file].language == SourceLanguage::Rust;
        for (name, path) in index.manifests.rust_libraries() {
            if let Some(root) = index.file(&path) {
                tree.libraries.insert(name, root);
                tree.claim(index, root);
            }
        }
        let roots = index.manifests.rust_roots();
        for path in roots {
            if let Some(root) = index.file(&path) {
                tree.claim(index, root);
            }
        }
        // Binaries, tests, examples, then whatever no module declares.
        for file in (0..index.scans.len()).filter(rust) {
            let path = &index.paths[file];
            let usual = ["main.rs", "lib.rs", "build.rs"].contains(&file_name(path))
                || ["bin", "tests", "examples", "benches"].contains(&file_name(folder(path)));
            if usual && !tree.places.contains_key(&file) {
                tree.claim(index, file);
            }
        }
        for file in (0..index.scans.len()).filter(rust) {
            if !tree.places.contains_key(&file) {
                tree.claim(index, file);
            }
        }
        tree
    }

    /// Walks the `mod` declarations from a root.
    fn claim(&mut self, index: &TreeIndex<'_>, root: usize) {
        let mut pending = vec![(root, Vec::<String>::new())];
        while let Some((file, path)) = pending.pop() {
            if self.modules.contains_key(&(root, path.clone())) {
                continue;
            }
            self.modules.insert((root, path.clone()), file);
            self.places.entry(file).or_insert_with(|| ModulePlace { root, path: path.clone() });
            for import in
                index.scans[file].imports.iter().filter(|import| import.form == ImportForm::ChildModule)
            {
                if let Some(child) = child_file(index, file, root == file, import) {
                    let name = import.alias.clone().unwrap_or_default();
                    let names = [path.clone(), import.inside.clone(), vec![name]].concat();
                    // A file that declares itself would go on for ever.
                    if child != file && names.len() < 32 {
                        pending.push((child, names));
                    }
                }
            }
        }
    }

    /// True if a file is the root of a crate.
    pub(crate) fn is_root(&self, file: usize) -> bool {
        self.places.get(&file).is_some_and(|place| place.root == file)
    }

    /// The file that a path names and the names that are left, which are symbols inside it.
    fn locate(&self, from: usize, inside: &[String], segments: &[String]) -> Option<(usize, Vec<String>)> {
        let place = self.places.get(&from)?;
        let here = [place.path.clone(), inside.to_vec()].concat();
        let (root, base, rest) = match segments.first()?.as_str() {
            "crate" => (place.root, Vec::new(), &segments[1..]),
            "self" => (place.root, here, &segments[1..]),
            "super" => {
                let ups = segments.iter().take_while(|name| *name == "super").count();
                let keep = here.len().checked_sub(ups)?;
                (place.root, here[..keep].to_vec(), &segments[ups..])
            }
            first => {
                let child = [here.clone(), vec![first.to_owned()]].concat();
                if self.modules.contains_key(&(place.root, child)) {
                    (place.root, here, segments)
                } else if let Some(root) = self.libraries.get(first) {
                    (*root, Vec::new(), &segments[1..])
                } else {
                    return None;
                }
            }
        };
        self.descend(root, base, rest)
    }

    fn descend(&self, root: usize, base: Vec<String>, rest: &[String]) -> Option<(usize, Vec<String>)> {
        let mut path = base;
        // A module inside a file has no file of its own: its names are left over.
        let mut inner = Vec::new();
        let mut file = loop {
            match self.modules.get(&(root, path.clone())) {
                Some(file) => break *file,
                None => inner.insert(0, path.pop()?),
            }
        };
        let mut left = [inner, rest.to_vec()].concat();
        while let Some(next) = left.first() {
            path.push(next.clone());
            match self.modules.get(&(root, path.clone())) {
                Some(found) => file = *found,
                None => break,
            }
            left.remove(0);
        }
        Some((file, left))
    }

    /// What a mention of several names means.
    pub(crate) fn mention(
        &self,
        index: &TreeIndex<'_>,
        links: &[FileLinks],
        from: usize,
        mention: &FoundMention,
    ) -> Option<(usize, String)> {
        let path = &mention.path;
        if let Some(bound) = links[from].bindings.get(&path[0]) {
            return follow(index, links, bound, &path[1..], MAX_HOPS);
        }
        if let Some((file, left)) = self.locate(from, &[], path) {
            return self.symbol(index, links, file, &left);
        }
        // `Type::method` of this file.
        let name = format!("{}.{}", path[0], path[1]);
        index.defines(from, &name).then_some((from, name))
    }

    fn symbol(
        &self,
        index: &TreeIndex<'_>,
        links: &[FileLinks],
        file: usize,
        left: &[String],
    ) -> Option<(usize, String)> {
        let name = left.first()?.clone();
        follow(index, links, &BoundName::Symbol(file, name), &left[1..], MAX_HOPS)
    }
}

/// The file of `mod name;` in a file.
fn child_file(
    index: &TreeIndex<'_>,
    file: usize,
    is_root: bool,
    import: &crate::scan::FoundImport,
) -> Option<usize> {
    let path = &index.paths[file];
    let here = folder(path);
    let name = file_name(path);
    if import.module.ends_with(".rs") {
        return index.file(&join(here, &import.module)?);
    }
    // `mod.rs` and roots own their folder; other files own the folder of their name.
    let own =
        if is_root || name == "mod.rs" { here.to_owned() } else { path.trim_end_matches(".rs").to_owned() };
    let base = join(&own, &import.inside.join("/"))?;
    let beside = join(&base, &format!("{}.rs", import.module)).and_then(|path| index.file(&path));
    beside.or_else(|| index.file(&join(&base, &format!("{}/mod.rs", import.module))?))
}

pub(super) fn link(index: &TreeIndex<'_>, file: usize) -> FileLinks {
    let mut links = FileLinks::default();
    let tree = index.rust();
    for import in &index.scans[file].imports {
        if import.form == ImportForm::ChildModule {
            let is_root = tree.places.get(&file).is_some_and(|place| place.root == file);
            if let Some(child) = child_file(index, file, is_root, import) {
                links.link(child, import.line, &import.symbol, None);
                links.bind(&import.symbol, BoundName::File(child));
            }
            continue;
        }
        let segments: Vec<String> = import.module.split("::").map(str::to_owned).collect();
        let Some((found, left)) = tree.locate(file, &import.inside, &segments) else {
            let first = segments.first().map(String::as_str).unwrap_or_default();
            if !matches!(first, "crate" | "self" | "super" | "")
                && !index.defines(file, first)
                && !first.starts_with(char::is_uppercase)
            {
                links.library(first, import.line, STANDARD.contains(&first));
            }
            continue;
        };
        let symbol = left.first().filter(|name| index.defines(found, name)).cloned();
        if found != file {
            links.link(found, import.line, &import.symbol, symbol);
        }
        for name in &import.names {
            let bound = match left.as_slice() {
                [] => BoundName::File(found),
                [first, ..] if found != file => BoundName::Symbol(found, first.clone()),
                _ => continue,
            };
            // `use a::Type::method` binds the method, which is known by its type.
            if left.len() <= 1 {
                links.bind(&name.local, bound);
            }
        }
        if import.wildcard && found != file {
            links.wildcards.push(found);
        }
    }
    links
}
