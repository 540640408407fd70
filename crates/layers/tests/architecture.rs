//! Holds ARCHITECTURE.md to the tree: every path that it names exists.
//!
//! A path is a word in backticks that begins with a crate's name and a slash, such as `server/lifecycle/starting`.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn crate_names() -> BTreeSet<String> {
    let entries = fs::read_dir(root().join("crates")).unwrap();
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

/// The words in backticks outside of fenced blocks.
fn quoted_words(text: &str) -> Vec<&str> {
    let prose = text.split("```").step_by(2);
    prose.flat_map(|part| part.split('`').skip(1).step_by(2)).collect()
}

fn exists(path: &str) -> bool {
    let (name, module) = path.split_once('/').unwrap();
    let place = root().join("crates").join(name).join("src").join(module);
    place.is_dir() || place.with_extension("rs").is_file()
}

#[test]
fn every_path_of_the_map_exists() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let crates = crate_names();
    let is_path = |word: &&str| {
        let first = word.split_once('/').map(|(first, _)| first);
        first.is_some_and(|first| crates.contains(first)) && !word.ends_with('/')
    };
    let paths: Vec<&str> = quoted_words(&text).into_iter().filter(is_path).collect();
    assert!(paths.len() > 40, "only {} paths were found in ARCHITECTURE.md", paths.len());
    let missing: Vec<&&str> = paths.iter().filter(|path| !exists(path)).collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md names paths that do not exist: {missing:?}");
}

/// The rows of the crates in ARCHITECTURE.md, highest first.
const CRATE_ROWS: &[&[&str]] = &[
    &["cli", "testkit"],
    &["server", "conformance"],
    &["programs", "reader"],
    &["sandbox", "agent", "guest", "context"],
    &["api", "memory", "survey", "web", "sys"],
    &["protocol", "pipe", "explain", "syntax", "cluster", "fuzz", "layers"],
];

/// The crates of this workspace that a crate is made of, tests and build scripts aside.
fn used_crates(name: &str) -> Vec<String> {
    let manifest = fs::read_to_string(root().join("crates").join(name).join("Cargo.toml")).unwrap();
    let section = manifest.split("\n[dependencies]\n").nth(1).unwrap_or_default();
    let section = section.split("\n[").next().unwrap_or_default();
    let used = section.lines().filter_map(|line| line.strip_prefix("sandyard-"));
    used.map(|line| line.split([' ', '.', '=']).next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn crates_use_crates_of_lower_rows_only() {
    let row = |name: &str| CRATE_ROWS.iter().position(|row| row.contains(&name));
    for name in crate_names() {
        let own = row(&name);
        assert!(own.is_some(), "`{name}` is in no row");
        for used in used_crates(&name) {
            assert!(own < row(&used), "`{name}` uses `{used}`, which is not below it");
        }
    }
    assert!(used_crates("cli").contains(&"server".to_owned()), "manifests are read");
}
