//! `sandyard explain`: files, page and JSON of a folder, without a server.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]
#![expect(clippy::print_stdout, reason = "a test that can't run here says so")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

const FILES: &[(&str, &str)] = &[
    ("pyproject.toml", "[project]\nname = 'shop'\n[project.scripts]\nshop = 'shop.cli:main'\n"),
    ("shop/__init__.py", ""),
    ("shop/cli.py", "from shop import store\n\ndef main():\n    store.load()\n"),
    ("shop/store.py", "import sqlite3\n\nfrom shop import models\n\ndef load():\n    return models.Item()\n"),
    ("shop/models.py", "class Item:\n    pass\n"),
];

fn put(folder: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

fn explain(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sandyard"));
    command.arg("explain").arg(folder).args(arguments);
    command.output().unwrap()
}

/// What a run printed, which must have ended well.
fn told(output: &Output) -> String {
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Targets of the links of a Markdown text or a page that lead to lines of files.
fn targets(text: &str) -> Vec<String> {
    let pieces = text.split(['(', '"']).filter(|piece| piece.contains("#L"));
    pieces.filter_map(|piece| piece.split_once("#L")).map(|(path, _)| path.to_owned()).collect()
}

#[test]
fn a_folder_becomes_files_whose_links_lead_to_it() {
    let place = TempDir::new().unwrap();
    let folder = place.path().join("code");
    put(&folder, FILES);
    let output = place.path().join("somewhere/page");
    let printed = told(&explain(&folder, &["--output", output.to_str().unwrap()]));
    assert!(printed.contains("EXPLAINED.md") && printed.contains("explained.html"), "{printed}");
    let read = |name: &str| fs::read_to_string(output.join(name)).unwrap();
    let markdown = read("EXPLAINED.md");
    assert!(markdown.starts_with("# shop\n") && markdown.contains("`shop`"), "{markdown}");
    assert!(read("diagram.dot").contains("shop/cli.py:4 calls load"), "{}", read("diagram.dot"));
    for text in [markdown, read("explained.html")] {
        let links = targets(&text);
        assert!(!links.is_empty(), "{text}");
        for link in links {
            assert!(output.join(&link).is_file(), "{link} leads nowhere");
        }
    }
    // Without Graphviz there are no pictures, and nothing else is missing.
    if Command::new("dot").arg("-V").output().is_ok_and(|output| output.status.success()) {
        let svg = read("diagram.svg");
        assert!(svg.starts_with("<svg") && svg.contains("<style>"), "{svg}");
        assert!(fs::read(output.join("diagram.png")).unwrap().starts_with(b"\x89PNG"));
    } else {
        println!("without pictures: there is no Graphviz here");
    }
    assert!(!output.join("changes.dot").exists());
}

#[test]
fn what_is_different_from_before_is_told() {
    let place = TempDir::new().unwrap();
    let (before, after) = (place.path().join("before"), place.path().join("after"));
    put(&before, FILES);
    put(&after, FILES);
    fs::remove_file(after.join("shop/models.py")).unwrap();
    put(&after, &[("shop/store.py", "import shop.things\n"), ("shop/things.py", "x = 1\n")]);
    let (before, output) = (before.to_str().unwrap(), place.path().join("out"));
    told(&explain(&after, &["--before", before, "--output", output.to_str().unwrap()]));
    let markdown = fs::read_to_string(output.join("EXPLAINED.md")).unwrap();
    for part in ["## What changed", "Removed (1): `shop/models.py`", "Changed (1)", "shop/things.py:1`"] {
        assert!(markdown.contains(part), "{part}: {markdown}");
    }
    assert!(fs::read_to_string(output.join("changes.dot")).unwrap().contains("1 removed file"));
    let json: Value = serde_json::from_str(&told(&explain(&after, &["--before", before, "--json"]))).unwrap();
    assert_eq!(json["changes"]["changes"]["added_files"], serde_json::json!(["shop/things.py"]));
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let output = explain(Path::new("/nowhere/at/all"), &[]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains("/nowhere/at/all"), "{told}");
}
