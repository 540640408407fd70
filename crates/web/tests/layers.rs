//! The layers of this crate: one file of constants. A second module must be given a layer here.

use std::path::Path;

const LAYERS: &[&[&str]] = &[];

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
