//! The layers of the server, lowest first. `lib.rs` says what each is for.

use std::path::Path;

const LAYERS: &[&[&str]] = &[
    &["clock", "disk", "fail_points", "json_scan", "key_file", "memory", "trust"],
    &["audit"],
    &["job"],
    &["auth"],
    &["store", "blobs"],
    &["output", "artifacts", "recall", "drivers"],
    &["gateways"],
    &["config"],
    &["yard"],
    &["lifecycle"],
    &["app"],
    &["http"],
];

#[test]
fn every_module_imports_downwards_only() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    if let Err(violations) = sandyard_layers::check(&source, LAYERS) {
        panic!("{}", violations.join("\n"));
    }
}
