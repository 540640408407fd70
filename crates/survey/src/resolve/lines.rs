//! Imports of languages that are scanned by lines: paths relative to the file, or ends of paths.

use sandyard_syntax::SourceLanguage;

use crate::resolve::bindings::FileLinks;
use crate::resolve::index::{TreeIndex, folder, join};

fn ends(language: SourceLanguage) -> &'static [&'static str] {
    match language {
        SourceLanguage::Ruby => &["", ".rb"],
        SourceLanguage::Php => &["", ".php"],
        SourceLanguage::Css => &["", ".css", ".scss", ".less"],
        SourceLanguage::Shell => &["", ".sh"],
        _ => &[""],
    }
}

pub(super) fn link(index: &TreeIndex<'_>, file: usize) -> FileLinks {
    let mut links = FileLinks::default();
    let scan = &index.scans[file];
    let here = folder(&index.paths[file]);
    for import in &scan.imports {
        // Namespaces of C# and PHP are no paths.
        let module = match scan.language {
            SourceLanguage::Php => import.module.replace('\\', "/"),
            SourceLanguage::CSharp => {
                match namespace(index, &import.module).as_slice() {
                    [] => {
                        let first = import.module.split('.').next().unwrap_or_default();
                        links.library(first, import.line, first == "System");
                    }
                    [found] if *found != file => links.link(*found, import.line, &import.symbol, None),
                    // Which of several files of a namespace is meant, its import does not tell.
                    _ => {}
                }
                continue;
            }
            _ => import.module.clone(),
        };
        let found = ends(scan.language).iter().find_map(|end| {
            let path = format!("{module}{end}");
            let beside = join(here, &path).and_then(|path| index.file(&path));
            beside.or_else(|| index.file(path.trim_start_matches('/'))).or_else(|| only(index, &path))
        });
        match found {
            Some(found) if found != file => links.link(found, import.line, &import.symbol, None),
            Some(_) => {}
            None if scan.language == SourceLanguage::Ruby && !module.starts_with('.') => {
                links.library(module.split('/').next().unwrap_or_default(), import.line, false);
            }
            None => {}
        }
    }
    links
}

/// Files of a C# namespace.
fn namespace(index: &TreeIndex<'_>, name: &str) -> Vec<usize> {
    let declares = |file: &usize| {
        let scan = &index.scans[*file];
        scan.language == SourceLanguage::CSharp && index.defines(*file, name)
    };
    (0..index.scans.len()).filter(declares).collect()
}

/// The only file whose path ends so.
fn only(index: &TreeIndex<'_>, path: &str) -> Option<usize> {
    match index.files_ending(path.trim_start_matches("./")).as_slice() {
        [file] => Some(*file),
        _ => None,
    }
}
