//! Imports of Go: packages are folders below the path of a module.

use sandyard_explain::facts::FileRole;
use sandyard_syntax::SourceLanguage;

use crate::resolve::bindings::{BoundName, FileLinks};
use crate::resolve::index::{TreeIndex, file_name};

pub(super) fn link(index: &TreeIndex<'_>, file: usize) -> FileLinks {
    let mut links = FileLinks::default();
    for import in &index.scans[file].imports {
        let Some(folder) = index.manifests.go_folder(&import.module) else {
            let first = import.module.split('/').next().unwrap_or_default();
            // Packages of the standard library have no domain in their path.
            let standard = !first.contains('.');
            let name = if standard {
                import.module.clone()
            } else {
                import.module.split('/').take(3).collect::<Vec<_>>().join("/")
            };
            links.library(&name, import.line, standard);
            continue;
        };
        let files: Vec<usize> = index
            .package(SourceLanguage::Go, &folder)
            .iter()
            .copied()
            .filter(|file| index.roles[*file] != FileRole::Test)
            .collect();
        let Some(first) = representative(index, &files) else { continue };
        links.link(first, import.line, &import.symbol, None);
        let package = index.scans[first].package.clone().unwrap_or_default();
        if import.wildcard {
            links.wildcards.extend(&files);
        } else {
            links.bind(import.alias.as_deref().unwrap_or(&package), BoundName::Package(files));
        }
    }
    links
}

/// The file that stands for a package: the one that documents it, the one named like it, else the first.
fn representative(index: &TreeIndex<'_>, files: &[usize]) -> Option<usize> {
    let named = |file: &&usize| {
        let stem = file_name(&index.paths[**file]).trim_end_matches(".go");
        Some(stem) == index.scans[**file].package.as_deref()
    };
    let found = files
        .iter()
        .find(named)
        .or_else(|| files.iter().find(|file| file_name(&index.paths[**file]) == "doc.go"));
    found.or(files.first()).copied()
}
