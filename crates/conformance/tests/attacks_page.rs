//! docs/attacks.md names tests and checks; each of them must be in the source, and each attack on the page.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::fs;
use std::path::{Path, PathBuf};

use sandyard_sandbox::drivers::CATALOGUE;

/// Every attack on wall, resources, files, network, pages and drivers.
const IDS: &[(char, &[u32])] = &[
    ('K', &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 20, 21, 22, 23, 24]),
    (
        'R',
        &[
            1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 14, 15, 16, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29,
            32, 33,
        ],
    ),
    ('F', &[1, 2, 3, 4, 6, 7, 8, 9, 10, 12, 13, 14, 16, 17, 18]),
    ('N', &[1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25]),
    ('W', &[8, 26, 27, 28]),
    ('P', &[5]),
    ('D', &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
];
#[test]
fn every_attack_is_on_the_page_once() {
    let rows = rows();
    for (letter, numbers) in IDS {
        for number in *numbers {
            let id = format!("{letter}{number}");
            assert_eq!(rows.iter().filter(|row| row[0] == id).count(), 1, "{id}");
        }
    }
}

#[test]
fn every_name_on_the_page_is_in_the_source() {
    let source = source();
    let mut names = 0;
    for row in rows().iter().filter(|row| row.len() == 4) {
        let shown: Vec<&str> = row[2].split('`').skip(1).step_by(2).collect();
        assert!(!shown.is_empty(), "{} is shown by nothing", row[0]);
        for name in shown {
            // A check is the beginning of a text, a test is a function.
            let is_check = name.starts_with(|letter: char| letter.is_ascii_uppercase());
            let wanted = if is_check { format!("\"{name}") } else { format!("fn {name}(") };
            assert!(source.contains(&wanted), "{}: {name} is nowhere", row[0]);
            names += 1;
        }
        let known = |words: &&str| {
            let names = CATALOGUE.iter().map(|entry| entry.name).chain(["all", "host"]);
            names.into_iter().any(|name| words.trim().starts_with(name))
        };
        assert!(
            row[3].split(',').all(|words| known(&words) || words.contains("all")),
            "{}: {}",
            row[0],
            row[3]
        );
    }
    assert!(names > 100, "only {names} names were found");
}

/// Cells of the rows of all tables, without their heads.
fn rows() -> Vec<Vec<String>> {
    let page = fs::read_to_string(root().join("docs/attacks.md")).unwrap();
    let cells =
        |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let is_row = |row: &Vec<String>| row.len() > 1 && row[0] != "id" && !row[0].starts_with("--");
    page.lines().filter(|line| line.starts_with('|')).map(cells).filter(is_row).collect()
}

/// All Rust in the repository but this file.
fn source() -> String {
    let mut text = String::new();
    let mut left = vec![root().join("crates"), root().join("tests")];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                left.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs")
                && !path.ends_with("attacks_page.rs")
            {
                text.push_str(&fs::read_to_string(path).unwrap());
            }
        }
    }
    text
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
