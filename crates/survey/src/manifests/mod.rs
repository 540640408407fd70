//! Files that describe a project for tools: what the project is called, needs, runs and tests with.
//!
//! A table maps file names to readers. Each reader takes the text and fills one [`ManifestFact`]; what the resolvers
//! need (package names, aliases, crate roots) goes into [`TreeManifests`].

mod cargo;
mod containers;
mod go;
mod java;
mod javascript;
mod make;
mod python;

use std::collections::BTreeMap;

pub(crate) use javascript::JavaScriptPackage;
use sandyard_explain::facts::{DeclaredPlace, ManifestFact};

use crate::files::FileTree;

/// Larger manifests are data.
const MAX_MANIFEST_BYTES: usize = 1 << 20;
/// Commands and names kept of one manifest.
const MAX_ITEMS: usize = 60;

/// A command that a manifest declares for users: name, module or file, function.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DeclaredCommand {
    /// Name of the command.
    pub(crate) name: String,
    /// Dotted module (Python) or path from the root of the tree.
    pub(crate) place: String,
    /// Function, if one is named.
    pub(crate) function: Option<String>,
    /// How it is started.
    pub(crate) command: Option<String>,
    /// The line that declares it, once the whole manifest is read.
    pub(crate) declared: Option<DeclaredPlace>,
}

/// All manifests of a tree.
#[derive(Debug, Default)]
pub(crate) struct TreeManifests {
    pub(crate) facts: Vec<ManifestFact>,
    pub(crate) commands: Vec<DeclaredCommand>,
    /// Packages of JavaScript by name.
    pub(crate) packages: BTreeMap<String, JavaScriptPackage>,
    aliases: Vec<javascript::PathAliases>,
    /// Module path and folder.
    go_modules: Vec<(String, String)>,
    rust_packages: Vec<cargo::RustPackage>,
}

/// Reads one manifest. `folder` is empty or has a slash at its end.
type ManifestReader = fn(&mut TreeManifests, folder: &str, text: &str, fact: &mut ManifestFact);

const READERS: &[(&str, ManifestReader)] = &[
    ("package.json", javascript::package),
    ("tsconfig.json", javascript::tsconfig),
    ("jsconfig.json", javascript::tsconfig),
    ("deno.json", javascript::deno),
    ("pyproject.toml", python::pyproject),
    ("setup.py", python::setup_py),
    ("setup.cfg", python::setup_cfg),
    ("requirements.txt", python::requirements),
    ("tox.ini", python::tox),
    ("Cargo.toml", cargo::cargo),
    ("go.mod", go::go_mod),
    ("pom.xml", java::pom),
    ("build.gradle", java::gradle),
    ("build.gradle.kts", java::gradle),
    ("Makefile", make::makefile),
    ("justfile", make::justfile),
    ("CMakeLists.txt", make::cmake),
    ("Dockerfile", containers::dockerfile),
    ("Containerfile", containers::dockerfile),
    ("docker-compose.yml", containers::compose),
    ("docker-compose.yaml", containers::compose),
    ("compose.yml", containers::compose),
    ("compose.yaml", containers::compose),
    ("Procfile", containers::procfile),
    (".gitlab-ci.yml", containers::gitlab),
];

/// The first line of a manifest that names the place of a command.
fn declared_place(path: &str, folder: &str, text: &str, place: &str) -> Option<DeclaredPlace> {
    let symbol = place.strip_prefix(folder).unwrap_or(place);
    let line = text.lines().position(|line| line.contains(symbol)).filter(|_| !symbol.is_empty())?;
    Some(DeclaredPlace { path: path.to_owned(), line: line as u32 + 1, symbol: symbol.to_owned() })
}

impl TreeManifests {
    /// Reads all manifests of a tree.
    pub(crate) fn read(tree: &FileTree) -> Self {
        let mut manifests = Self::default();
        for file in tree.files.iter().filter(|file| file.bytes.len() <= MAX_MANIFEST_BYTES) {
            let (folder, name) = match file.path.rsplit_once('/') {
                Some((folder, name)) => (format!("{folder}/"), name),
                None => (String::new(), file.path.as_str()),
            };
            let workflow = file.path.starts_with(".github/workflows/");
            let reader = READERS.iter().find(|(known, _)| *known == name).map(|(_, reader)| *reader);
            let Some(reader) = reader.or(workflow.then_some(containers::workflow as ManifestReader)) else {
                continue;
            };
            let kind = if workflow { "GitHub workflow" } else { name };
            let mut fact =
                ManifestFact { path: file.path.clone(), kind: kind.to_owned(), ..ManifestFact::default() };
            let text = String::from_utf8_lossy(&file.bytes);
            let known = manifests.commands.len();
            reader(&mut manifests, &folder, &text, &mut fact);
            for command in &mut manifests.commands[known..] {
                command.declared = declared_place(&file.path, &folder, &text, &command.place);
            }
            fact.dependencies.sort();
            fact.dependencies.dedup();
            fact.dependencies.truncate(MAX_ITEMS);
            fact.commands.truncate(MAX_ITEMS);
            fact.services.truncate(MAX_ITEMS);
            manifests.facts.push(fact);
        }
        manifests.commands.sort();
        manifests.commands.dedup();
        // Longest module first, so that a nested module wins.
        manifests.go_modules.sort_by(|left, right| right.0.len().cmp(&left.0.len()).then(left.cmp(right)));
        manifests
    }

    /// The folder of a Go package of this tree.
    pub(crate) fn go_folder(&self, import: &str) -> Option<String> {
        self.go_modules.iter().find_map(|(module, folder)| {
            let rest = import.strip_prefix(module.as_str())?;
            let rest = if rest.is_empty() { rest } else { rest.strip_prefix('/')? };
            Some(format!("{folder}{rest}").trim_end_matches('/').to_owned())
        })
    }

    /// Library names and root files of all Rust packages.
    pub(crate) fn rust_libraries(&self) -> Vec<(String, String)> {
        self.rust_packages
            .iter()
            .filter_map(|package| Some((package.library.clone(), package.root.clone()?)))
            .collect()
    }

    /// Root files of binaries, tests and the like that manifests name.
    pub(crate) fn rust_roots(&self) -> Vec<String> {
        self.rust_packages.iter().flat_map(|package| package.others.clone()).collect()
    }

    /// Paths that an aliased import may mean, seen from a folder.
    pub(crate) fn javascript_aliases(&self, folder: &str, module: &str) -> Vec<String> {
        javascript::aliased(&self.aliases, folder, module)
    }

    /// Paths that the import of a package of this tree may mean.
    pub(crate) fn javascript_package(&self, module: &str) -> Vec<String> {
        javascript::package_paths(&self.packages, module)
    }

    /// Name of the package whose manifest is nearest above a path.
    pub(crate) fn package_of(&self, path: &str) -> Option<String> {
        let folder = |fact: &ManifestFact| {
            fact.path.rsplit_once('/').map(|(folder, _)| format!("{folder}/")).unwrap_or_default()
        };
        let above = self.facts.iter().filter(|fact| fact.name.is_some() && path.starts_with(&folder(fact)));
        above.max_by_key(|fact| folder(fact).len()).and_then(|fact| fact.name.clone())
    }

    /// The main file of the package in a folder.
    pub(crate) fn javascript_main(&self, folder: &str) -> Option<String> {
        self.packages
            .values()
            .find(|package| package.folder.trim_end_matches('/') == folder)
            .and_then(|package| package.main.clone())
    }
}
