//! Packages of a tree, and the paths that imports of them may mean.

use std::collections::BTreeMap;

/// A package of the tree.
#[derive(Debug)]
pub(crate) struct JavaScriptPackage {
    /// Folder, empty or with a slash at its end.
    pub(crate) folder: String,
    /// File that stands for the package.
    pub(crate) main: Option<String>,
}

/// Aliases of a `tsconfig.json`, which hold below its folder.
#[derive(Debug)]
pub(super) struct PathAliases {
    pub(super) folder: String,
    pub(super) base: String,
    /// Pattern with at most one star, and what it stands for.
    pub(super) rules: Vec<(String, String)>,
    /// True if names without a dot are looked up from the base folder.
    pub(super) base_is_searched: bool,
}

/// A Rust package.
#[derive(Debug)]
pub(super) struct RustPackage {
    /// Name of its library in `use`.
    pub(super) library: String,
    /// Path of the library's root.
    pub(super) root: Option<String>,
    /// Paths of other roots that the manifest names.
    pub(super) others: Vec<String>,
}

pub(super) fn aliased(aliases: &[PathAliases], folder: &str, module: &str) -> Vec<String> {
    let inside = format!("{folder}/");
    let mut found = Vec::new();
    for alias in aliases.iter().filter(|alias| inside.starts_with(&alias.folder)) {
        for (pattern, target) in &alias.rules {
            let fitted = match pattern.split_once('*') {
                Some((start, end)) => module
                    .strip_prefix(start)
                    .and_then(|rest| rest.strip_suffix(end))
                    .map(|middle| target.replace('*', middle)),
                None => (pattern == module).then(|| target.clone()),
            };
            found.extend(fitted.map(|path| clean(&format!("{}/{path}", alias.base))));
        }
        if alias.base_is_searched {
            found.push(clean(&format!("{}/{module}", alias.base)));
        }
    }
    found
}

pub(super) fn package_paths(packages: &BTreeMap<String, JavaScriptPackage>, module: &str) -> Vec<String> {
    let parts = if module.starts_with('@') { 2 } else { 1 };
    let name = module.split('/').take(parts).collect::<Vec<_>>().join("/");
    let Some(package) = packages.get(&name) else { return Vec::new() };
    let rest = module[name.len()..].trim_start_matches('/');
    let folder = &package.folder;
    if !rest.is_empty() {
        return vec![clean(&format!("{folder}{rest}")), clean(&format!("{folder}src/{rest}"))];
    }
    // What is published is mostly built from `src`, which is what people read.
    let mut paths = vec![clean(&format!("{folder}src/index"))];
    paths.extend(package.main.as_ref().map(|main| clean(&format!("{folder}{main}"))));
    paths.push(clean(&format!("{folder}index")));
    paths
}

/// A path without `.`, `..` and empty parts.
pub(super) fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}
