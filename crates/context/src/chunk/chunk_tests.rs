use proptest::prelude::*;

use super::kinds::MAX_BYTES;
use super::*;

fn texts<'t>(path: &str, text: &'t str) -> Vec<(String, &'t str)> {
    chunks(path, text).into_iter().map(|chunk| (chunk.name, &text[chunk.bytes])).collect()
}

#[test]
fn prose_is_cut_at_headings_and_named_by_them() {
    let words = "words of a paragraph. ".repeat(25);
    let text = format!(
        "Intro {words}\n\n# One\n\nFirst {words}\n\n## Two\n\nSecond.\n```\n# no heading\n```\n{words}\n\nThree\n=====\nLast {words}"
    );
    let found = texts("a.md", &text);
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["", "One", "One > Two", "Three"]);
    assert!(found[3].1.starts_with("Three\n=====\nLast"));
    assert!(found[2].1.contains("# no heading"));
    let short = texts("a.md", "# One\na\n## Two\nb\n");
    assert_eq!(short, [("One, One > Two".to_owned(), "# One\na\n## Two\nb")]);
}

#[test]
fn lines_are_counted_from_one() {
    let words = "word ".repeat(100);
    let text = format!("a {words}\n\n# Three\n{words}\n\n# Six\n{words}");
    let lines: Vec<(u32, u32)> =
        chunks("a.md", &text).iter().map(|chunk| (chunk.first_line, chunk.last_line)).collect();
    assert_eq!(lines, [(1, 1), (3, 4), (6, 7)]);
}

#[test]
fn code_is_cut_by_definitions_and_nothing_is_a_chunk_of_brackets() {
    let body = "        self.value = compute(self.value)\n".repeat(16);
    let text = format!(
        "import os\n\nLIMIT = 3\n\nclass Shop:\n    \"\"\"Sells.\"\"\"\n\n    def open(self):\n{body}\n    def close(self):\n{body}\n\ndef main():\n    Shop().open()\n"
    );
    let found = texts("shop.py", &text);
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["Shop.open", "Shop.close", "main"]);
    assert!(found[0].1.starts_with("import os") && found[0].1.contains("Sells."));
    let rust = format!(
        "impl Shop {{\n    fn open(&self) {{\n{body}    }}\n\n    fn close(&self) {{\n{body}    }}\n}}\n"
    );
    let found = texts("shop.rs", &rust);
    assert_eq!(found.len(), 2);
    assert!(found[0].1.starts_with("impl Shop {") && found[1].1.ends_with("}\n}"));
}

#[test]
fn a_log_is_searched_without_repetitions_and_times() {
    let mut text = String::new();
    for second in 10..40 {
        text.push_str(&format!("2026-11-18 10:00:{second} INFO progress {second} of 99\n"));
    }
    text.push_str("2026-11-18 10:01:00 ERROR the disk is full\n  at line 7\n");
    let found = chunks("run.log", &text);
    let searched = found[0].searched.as_deref().unwrap();
    assert_eq!(searched.matches("progress").count(), 1, "{searched}");
    let last = found.last().unwrap();
    let searched = last.searched.as_deref().unwrap();
    assert!(!searched.contains("progress"), "{searched}");
    assert!(searched.contains("the disk is full\n  at line 7") && !searched.contains("10:01"), "{searched}");
    assert!(text[last.bytes.clone()].contains("2026-11-18 10:01:00 ERROR"));
}

#[test]
fn json_is_cut_by_structure() {
    let long = "x ".repeat(400);
    let text =
        format!("{{\"one\": {{\"a\": \"{long}\", \"b\": \"{long}\"}}, \"two\": \"line\\nnext {long}\"}}");
    let found = chunks("a.json", &text);
    let names: Vec<&str> = found.iter().map(|chunk| chunk.name.as_str()).collect();
    assert_eq!(names, ["one.a", "one.b", "two"]);
    assert!(found[2].searched.as_deref().unwrap().contains("line\nnext"));
}

#[test]
fn a_notebook_is_cut_by_cell() {
    let picture = "A".repeat(30_000);
    let text = format!(
        r#"{{"cells": [{{"cell_type": "code", "source": ["import numpy\n", "x = 1"], "outputs": [{{"data": {{"image/png": "{picture}", "text/plain": ["an array"]}}}}]}}, {{"cell_type": "markdown", "source": "Some words"}}], "metadata": {{}}}}"#
    );
    let found = chunks("a.ipynb", &text);
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].searched.as_deref(), Some("import numpy\nx = 1\nan array\n"));
    assert_eq!((found[1].name.as_str(), found[1].kind), ("cell 2", ChunkKind::Cell));
}

#[test]
fn binary_data_is_not_readable_and_stray_bytes_keep_their_place() {
    assert_eq!(readable(b"\x7fELF\0\0"), None);
    assert_eq!(readable(b"a\xff\xfeb").as_deref(), Some("a??b"));
}

proptest! {
    #[test]
    fn chunks_of_any_text_are_in_order_and_bounded(
        text in "([a-z{}\\[\\]\",:#=\\\\ \n0-9é]{0,40}\n){0,120}",
        ending in prop::sample::select(vec!["md", "log", "json", "jsonl", "ipynb", "xyz", "py", "rs", "ts"]),
    ) {
        let mut end = 0;
        let mut line = 0;
        for chunk in chunks(&format!("file.{ending}"), &text) {
            prop_assert!(chunk.bytes.start >= end && chunk.bytes.end <= text.len());
            prop_assert!(chunk.bytes.len() <= MAX_BYTES || chunk.kind == ChunkKind::Cell, "{}", chunk.bytes.len());
            prop_assert!(chunk.first_line > 0 && chunk.first_line >= line && chunk.last_line >= chunk.first_line);
            prop_assert_eq!(chunk.first_line as usize, text[..chunk.bytes.start].matches('\n').count() + 1);
            end = chunk.bytes.end;
            line = chunk.last_line;
        }
    }

    #[test]
    fn every_word_of_a_text_is_in_a_chunk(
        words in prop::collection::vec("[a-z]{3,9}[ \n]{1,3}", 0..400),
        ending in prop::sample::select(vec!["md", "log", "json", "jsonl", "ipynb", "xyz", "py", "js"]),
    ) {
        let text = words.concat();
        let all: String = chunks(&format!("file.{ending}"), &text).into_iter().map(|chunk| text[chunk.bytes].to_owned() + "\n").collect();
        let mut kept = all.split_whitespace().collect::<String>();
        kept.retain(|character| character != ' ');
        prop_assert_eq!(kept, text.split_whitespace().collect::<String>());
    }
}
