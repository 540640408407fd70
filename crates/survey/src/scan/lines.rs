//! Languages without a grammar here, line by line: imports and the names of definitions.

use sandyard_explain::facts::SymbolFact;
use sandyard_syntax::SourceLanguage;

use crate::scan::found::{FileScan, FoundImport};
use crate::scan::words::cut;

/// Longer lines are data, not code.
const MAX_LINE_BYTES: usize = 2000;
/// Definitions kept of one file.
const MAX_SYMBOLS: usize = 2000;

/// What begins a definition: the words before its name, and its kind.
type DefinitionWords = &'static [(&'static str, &'static str)];
/// What begins an import: the words before the quoted or bare name.
type ImportWords = &'static [&'static str];

fn table(language: SourceLanguage) -> (ImportWords, DefinitionWords) {
    match language {
        SourceLanguage::CSharp => (
            &["using "],
            &[
                ("class ", "class"),
                ("interface ", "interface"),
                ("struct ", "struct"),
                ("enum ", "enum"),
                ("record ", "class"),
                ("namespace ", "module"),
            ],
        ),
        SourceLanguage::Ruby => (
            &["require_relative ", "require ", "load "],
            &[("class ", "class"), ("module ", "module"), ("def ", "function")],
        ),
        SourceLanguage::Php => (
            &["require_once ", "require ", "include_once ", "include ", "use "],
            &[
                ("class ", "class"),
                ("interface ", "interface"),
                ("trait ", "trait"),
                ("function ", "function"),
                ("enum ", "enum"),
            ],
        ),
        SourceLanguage::Shell => (&["source ", ". "], &[("function ", "function")]),
        SourceLanguage::Sql => (
            &["\\i ", "\\ir "],
            &[
                ("create table ", "table"),
                ("create view ", "view"),
                ("create function ", "function"),
                ("create index ", "index"),
                ("create type ", "type"),
            ],
        ),
        SourceLanguage::Html => (&[], &[]),
        SourceLanguage::Css => (&["@import ", "@use ", "@forward "], &[]),
        // A deep language whose file exceeds the limits.
        SourceLanguage::Python => (&["import ", "from "], &[("class ", "class"), ("def ", "function")]),
        SourceLanguage::Go => (&["import "], &[("func ", "function"), ("type ", "type")]),
        SourceLanguage::Rust => {
            (&[], &[("fn ", "function"), ("struct ", "struct"), ("enum ", "enum"), ("trait ", "trait")])
        }
        SourceLanguage::C | SourceLanguage::Cpp => (&["#include "], &[]),
        _ => (&[], &[("function ", "function"), ("class ", "class")]),
    }
}

/// Words that may stand before a definition.
const MODIFIERS: &[&str] = &[
    "public",
    "private",
    "protected",
    "internal",
    "static",
    "abstract",
    "final",
    "sealed",
    "partial",
    "async",
    "export",
    "pub",
    "readonly",
    "temporary",
    "or",
    "replace",
    "unique",
];

pub(super) fn scan(language: SourceLanguage, source: &[u8]) -> FileScan {
    let lines: Vec<&[u8]> = source.split(|byte| *byte == b'\n').collect();
    let count = lines.len() - usize::from(lines.last().is_some_and(|line| line.is_empty()));
    let mut scan = FileScan::new(language, count as u32);
    let (imports, definitions) = table(language);
    for (number, line) in lines.iter().enumerate().filter(|(_, line)| line.len() <= MAX_LINE_BYTES) {
        let line = String::from_utf8_lossy(line);
        let number = number as u32 + 1;
        if language == SourceLanguage::Html {
            scan.imports.extend(html_links(&line).into_iter().map(|target| import(&target, number)));
            continue;
        }
        let text = line.trim();
        // Others find a class by its package, even in a file that is too long for the grammar.
        if scan.package.is_none() && matches!(language, SourceLanguage::Java | SourceLanguage::Go) {
            scan.package =
                strip_word(text, "package ").map(|rest| rest.trim_end_matches(';').trim().to_owned());
        }
        if let Some(rest) = imports.iter().find_map(|word| strip_word(text, word)) {
            scan.imports.extend(imported(language, text, rest).map(|target| import(&target, number)));
        }
        if scan.symbols.len() < MAX_SYMBOLS {
            scan.symbols.extend(defined(language, text, definitions, number));
        }
    }
    scan
}

fn strip_word<'text>(text: &'text str, word: &str) -> Option<&'text str> {
    let head = text.get(..word.len())?;
    head.eq_ignore_ascii_case(word).then(|| &text[word.len()..])
}

fn import(target: &str, line: u32) -> FoundImport {
    FoundImport { module: target.to_owned(), symbol: target.to_owned(), line, ..FoundImport::default() }
}

/// The target of an import, if it can name a file.
fn imported(language: SourceLanguage, line: &str, rest: &str) -> Option<String> {
    let rest = rest.trim();
    let quoted = rest.split(['"', '\'', '<', '>']).nth(1).filter(|_| rest.contains(['"', '\'', '<']));
    let target = match language {
        SourceLanguage::CSharp => rest.strip_suffix(';').filter(|name| !name.contains(['=', '(']))?,
        SourceLanguage::Php if line.starts_with("use ") => rest.strip_suffix(';')?,
        SourceLanguage::Shell | SourceLanguage::Sql => {
            rest.split_whitespace().next()?.trim_matches(['"', '\''])
        }
        SourceLanguage::Python => rest.split_whitespace().next()?,
        _ => quoted?,
    };
    // A variable at the start is mostly the script's own folder.
    let target = match target.strip_prefix('$') {
        Some(variable) => variable.split_once('/').map(|(_, path)| path)?,
        None => target,
    };
    (!target.is_empty() && target.len() < 200 && !target.contains(['$', '\\'])
        || language == SourceLanguage::Php && target.len() < 200)
        .then(|| target.to_owned())
}

fn html_links(line: &str) -> Vec<String> {
    let tags = line.split('<').filter(|tag| tag.starts_with("script") || tag.starts_with("link"));
    let links = tags.flat_map(|tag| {
        ["src=\"", "href=\""].into_iter().filter_map(|name| {
            let value = tag.split_once(name)?.1.split('"').next()?;
            (!value.contains("://") && !value.starts_with("//") && !value.is_empty())
                .then(|| value.to_owned())
        })
    });
    links.take(50).collect()
}

fn defined(language: SourceLanguage, line: &str, words: DefinitionWords, number: u32) -> Option<SymbolFact> {
    let mut text = line;
    while let Some((_, rest)) =
        text.split_once(' ').filter(|(first, _)| MODIFIERS.contains(&first.to_lowercase().as_str()))
    {
        text = rest.trim_start();
    }
    let create = language == SourceLanguage::Sql;
    let shell = (language == SourceLanguage::Shell).then(|| text.split_once("()")).flatten();
    let (rest, kind) = match shell {
        Some((name, _)) if !name.contains(' ') => (name, "function"),
        _ => words.iter().find_map(|(word, kind)| strip_word(text, word).map(|rest| (rest, *kind)))?,
    };
    let rest = if create { strip_word(rest, "if not exists ").unwrap_or(rest) } else { rest };
    let name: String = rest
        .trim_start()
        .chars()
        .take_while(|letter| letter.is_alphanumeric() || "_.:?!$".contains(*letter))
        .collect();
    let name = name.trim_end_matches([':', '.']).to_owned();
    (!name.is_empty()).then(|| SymbolFact {
        name: cut(&name, 100),
        kind: kind.to_owned(),
        line: number,
        last_line: number,
        public: true,
        doc: None,
    })
}
