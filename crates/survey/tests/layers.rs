//! The layers of this crate, lowest first: a module imports from its own layer and from those below.

use std::path::Path;

const LAYERS: &[&[&str]] =
    &[&["scan", "files"], &["manifests", "stores"], &["resolve"], &["entries"], &["survey"]];

#[test]
fn modules_import_downwards_only() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    assert_eq!(sandyard_layers::check(&source, LAYERS), Ok(()));
}

#[test]
fn files_do_not_import_each_other_in_a_circle() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    assert_eq!(sandyard_layers::check_files(&source, ""), Ok(()));
}
