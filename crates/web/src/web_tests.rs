//! What must be true of every page: no markup from text, nothing from outside, and small.

use std::path::Path;

use super::*;

/// Bytes of the first page of the console, compressed: markup, style and the scripts it can't show itself without.
const FIRST_LOAD_BYTES: usize = 60 * 1024;
/// Bytes of everything the console can load, compressed, without the parts in [`LARGE_PARTS`]. The page of the API is a viewer of
/// others, which no page of ours loads.
const ALL_BYTES: usize = 200 * 1024;
/// Words of the libraries that are loaded when a terminal or a desktop is first opened.
const LARGE_PARTS: [&str; 2] = ["xterm-screen", "ServerCutText"];

fn pages() -> Vec<(&'static str, &'static str)> {
    let pages: Vec<_> = ASSETS
        .iter()
        .filter(|asset| asset.name.ends_with(".html"))
        .map(|asset| (asset.name, std::str::from_utf8(asset.bytes).unwrap()))
        .collect();
    assert_eq!(pages.len(), 4, "console, desktop, docs, open");
    pages
}

#[test]
fn pages_load_nothing_from_outside_and_have_no_inline_script() {
    for (name, html) in pages() {
        assert!(
            !html.contains("http:") && !html.contains("https:") && !html.contains("//"),
            "{name}: {html}"
        );
        let handlers = html.split_whitespace().any(|word| word.starts_with("on") && word.contains('='));
        assert!(!html.contains("<style") && !html.contains(" style=") && !handlers, "{name}: {html}");
        for script in html.split("<script").skip(1) {
            assert!(script.trim_start().starts_with("type=\"module\" src=\"/assets/"), "{name}: {script}");
        }
        assert!(!html.contains('%'), "{name}: a place was not filled");
        for link in html.split("\"/assets/").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(WebAsset::find(link).is_some(), "{name}: there is no {link}");
        }
    }
}

/// In our own sources; libraries are held to it by the browser, because every page demands trusted types.
#[test]
fn w18_scripts_never_make_markup_or_code_from_text() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/src");
    let mut left = vec![source];
    let mut files = 0;
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for forbidden in [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "createPolicy",
            "InnerHTML",
        ] {
            // The one policy of ours lets a few elements without attributes pass, on the page of the API.
            let allowed = forbidden == "createPolicy" && path.ends_with("docs/simple-markup.ts");
            assert!(allowed || !text.contains(forbidden), "{}: {forbidden}", path.display());
        }
        files += 1;
    }
    assert!(files > 30, "the sources were not found");
}

#[test]
fn the_first_page_and_the_whole_console_are_small() {
    let sizes = include_str!(concat!(env!("SANDYARD_WEB_DIST"), "/sizes.tsv"));
    let mut first = 0;
    let mut all = 0;
    for row in sizes.lines() {
        let [name, gzip, load] = row.split('\t').collect::<Vec<_>>()[..] else { panic!("{row}") };
        let gzip: usize = gzip.parse().unwrap();
        let text = String::from_utf8_lossy(WebAsset::find(name).unwrap().bytes);
        let large = name.starts_with("docs")
            || (name.ends_with(".js") && LARGE_PARTS.iter().any(|word| text.contains(word)));
        first += if load == "first" { gzip } else { 0 };
        all += if large { 0 } else { gzip };
        assert!(!(large && load == "first"), "{name} is loaded before it is needed");
    }
    assert!(first > 5_000 && first <= FIRST_LOAD_BYTES, "the first page has {first} bytes");
    assert!(all > first && all <= ALL_BYTES, "the console has {all} bytes");
}

#[test]
fn names_with_a_hash_are_told_from_those_without() {
    let immutable = |name: &str| WebAsset::find(name).unwrap().is_immutable();
    assert!(!immutable("desktop.js") && !immutable("favicon.svg") && !immutable("console.html"));
    let console = ASSETS.iter().find(|asset| asset.name.starts_with("console-")).unwrap();
    assert!(console.is_immutable(), "{}", console.name);
}

#[test]
fn the_lock_file_names_no_registry() {
    let lock = include_str!("../../../web/package-lock.json");
    assert!(!lock.contains("\"resolved\""));
    assert!(lock.contains("\"integrity\": \"sha512-"));
}
