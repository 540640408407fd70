//! Imports of Java: a class is found by its package and its file's name.

use sandyard_syntax::SourceLanguage;

use crate::resolve::bindings::{BoundName, FileLinks};
use crate::resolve::index::{TreeIndex, file_name};

pub(super) fn link(index: &TreeIndex<'_>, file: usize) -> FileLinks {
    let mut links = FileLinks::default();
    for import in &index.scans[file].imports {
        if import.wildcard {
            let files = index.package(SourceLanguage::Java, &import.module);
            links.wildcards.extend(files);
            if files.is_empty() {
                library(&mut links, &import.module, import.line);
            }
            continue;
        }
        let Some((found, class)) = class_file(index, &import.module) else {
            library(&mut links, &import.module, import.line);
            continue;
        };
        links.link(found, import.line, &import.symbol, Some(class.clone()));
        links.bind(&class, BoundName::Symbol(found, class.clone()));
    }
    links
}

/// The file of a qualified class; an inner class lies in the file of its outer one.
fn class_file(index: &TreeIndex<'_>, name: &str) -> Option<(usize, String)> {
    let mut rest = name;
    while let Some((package, class)) = rest.rsplit_once('.') {
        let files = index.package(SourceLanguage::Java, package);
        let wanted = format!("{class}.java");
        let named = files.iter().find(|file| file_name(&index.paths[**file]) == wanted);
        if let Some(file) = named.or_else(|| files.iter().find(|file| index.defines(**file, class))) {
            return Some((*file, class.to_owned()));
        }
        rest = package;
    }
    None
}

fn library(links: &mut FileLinks, module: &str, line: u32) {
    let standard = ["java.", "javax.", "jdk.", "sun."].iter().any(|start| module.starts_with(start));
    let parts = if standard { 2 } else { 3 };
    let name = module.split('.').take(parts).collect::<Vec<_>>().join(".");
    links.library(&name, line, standard);
}
