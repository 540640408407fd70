//! The layers of this crate, lowest first: a module imports from its own layer and from those below.

use std::path::Path;

const LAYERS: &[&[&str]] = &[
    &["facts", "graph", "ignore"],
    &["changes", "claims"],
    &["structure"],
    &["diagram"],
    &["text", "page"],
    &["explanation"],
    &["narration"],
];

#[test]
fn modules_import_downwards_only() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    assert_eq!(sandyard_layers::check(&source, LAYERS), Ok(()));
}
