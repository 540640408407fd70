//! The layers of the command, lowest first.

use std::path::Path;

const LAYERS: &[&[&str]] = &[
    &[
        "exit_codes",
        "clock",
        "runtime",
        "config",
        "machine",
        "log",
        "demo",
        "progress",
        "host_checks",
        "table",
    ],
    &["ui"],
    &["client"],
    &["terminal", "images", "drivers"],
    &["trial"],
    &["warden"],
    &["serve"],
    &["errors"],
    &["context", "job"],
    &["commands"],
];

#[test]
fn every_module_imports_downwards_only() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    if let Err(violations) = sandyard_layers::check(&source, LAYERS) {
        panic!("{}", violations.join("\n"));
    }
}

#[test]
fn files_do_not_import_each_other_in_a_circle() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    assert_eq!(sandyard_layers::check_files(&source, ""), Ok(()));
}
