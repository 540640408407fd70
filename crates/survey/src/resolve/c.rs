//! Includes of C and C++.

use crate::resolve::bindings::FileLinks;
use crate::resolve::index::{TreeIndex, folder, join};
use crate::scan::ImportForm;

pub(super) fn link(index: &TreeIndex<'_>, file: usize) -> FileLinks {
    let mut links = FileLinks::default();
    let here = folder(&index.paths[file]);
    for import in &index.scans[file].imports {
        let beside = join(here, &import.module).filter(|_| import.form == ImportForm::Plain);
        let found = beside
            .and_then(|path| index.file(&path))
            .or_else(|| below_include_folder(index, here, &import.module));
        match found {
            Some(found) => {
                links.link(found, import.line, &import.symbol, None);
                // Not a wildcard of names: what a header declares is defined elsewhere.
                links.wildcards.push(found);
            }
            None if import.form == ImportForm::System => {
                let name = import.module.split('/').next().unwrap_or_default();
                let standard = !import.module.contains('/') || name == "sys";
                links.library(name.trim_end_matches(".h"), import.line, standard);
            }
            None => {}
        }
    }
    links
}

/// The only header of that path below any folder, or the one in the nearest folder.
fn below_include_folder(index: &TreeIndex<'_>, here: &str, module: &str) -> Option<usize> {
    let candidates = index.files_ending(module);
    let shared = |file: &usize| {
        index.paths[*file].split('/').zip(here.split('/')).take_while(|(left, right)| left == right).count()
    };
    // `<string.h>` of the system is not some `string.h` deep in the tree.
    let plain = !module.contains('/') && candidates.len() > 1;
    if plain && candidates.iter().all(|file| shared(file) == 0) {
        return None;
    }
    candidates.into_iter().max_by_key(|file| (shared(file), std::cmp::Reverse(*file)))
}
