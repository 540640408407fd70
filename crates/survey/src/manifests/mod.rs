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
mod packages;
mod python;
mod reading;

use std::collections::BTreeMap;

pub(crate) use packages::JavaScriptPackage;
use sandyard_explain::facts::{DeclaredPlace, ManifestFact};

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
    aliases: Vec<packages::PathAliases>,
    /// Module path and folder.
    go_modules: Vec<(String, String)>,
    rust_packages: Vec<packages::RustPackage>,
}

impl TreeManifests {
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
        packages::aliased(&self.aliases, folder, module)
    }

    /// Paths that the import of a package of this tree may mean.
    pub(crate) fn javascript_package(&self, module: &str) -> Vec<String> {
        packages::package_paths(&self.packages, module)
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
