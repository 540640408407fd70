//! Which language a file is written in, decided by its name and its first line.

/// A language of source files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SourceLanguage {
    /// Python, with stubs (`.pyi`).
    Python,
    /// JavaScript, with JSX.
    JavaScript,
    /// TypeScript without JSX.
    TypeScript,
    /// TypeScript with JSX.
    Tsx,
    /// Rust.
    Rust,
    /// Go.
    Go,
    /// Java.
    Java,
    /// C.
    C,
    /// C++, and headers that use it.
    Cpp,
    /// C#.
    CSharp,
    /// Ruby.
    Ruby,
    /// PHP.
    Php,
    /// Shell scripts of the Bourne family.
    Shell,
    /// SQL.
    Sql,
    /// HTML.
    Html,
    /// CSS and its relatives (SCSS, Less).
    Css,
}

/// How much of a language is understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseDepth {
    /// A grammar makes a syntax tree.
    Deep,
    /// Only lines are scanned, for imports and the names of definitions.
    FileLevel,
}

/// One row of the table of languages.
struct LanguageRow {
    language: SourceLanguage,
    name: &'static str,
    depth: ParseDepth,
    extensions: &'static [&'static str],
    interpreters: &'static [&'static str],
}

const ROWS: &[LanguageRow] = &[
    row(SourceLanguage::Python, "Python", ParseDepth::Deep, &["py", "pyi", "pyw"], &["python"]),
    row(
        SourceLanguage::JavaScript,
        "JavaScript",
        ParseDepth::Deep,
        &["js", "mjs", "cjs", "jsx"],
        &["node", "nodejs", "bun"],
    ),
    row(
        SourceLanguage::TypeScript,
        "TypeScript",
        ParseDepth::Deep,
        &["ts", "mts", "cts"],
        &["deno", "tsx", "ts-node"],
    ),
    row(SourceLanguage::Tsx, "TypeScript", ParseDepth::Deep, &["tsx"], &[]),
    row(SourceLanguage::Rust, "Rust", ParseDepth::Deep, &["rs"], &[]),
    row(SourceLanguage::Go, "Go", ParseDepth::Deep, &["go"], &[]),
    row(SourceLanguage::Java, "Java", ParseDepth::Deep, &["java"], &[]),
    row(SourceLanguage::C, "C", ParseDepth::Deep, &["c", "h"], &[]),
    row(
        SourceLanguage::Cpp,
        "C++",
        ParseDepth::Deep,
        &["cc", "cpp", "cxx", "c++", "hh", "hpp", "hxx", "h++", "ipp", "tpp", "inl"],
        &[],
    ),
    row(SourceLanguage::CSharp, "C#", ParseDepth::FileLevel, &["cs"], &[]),
    row(SourceLanguage::Ruby, "Ruby", ParseDepth::FileLevel, &["rb", "rake", "gemspec"], &["ruby"]),
    row(SourceLanguage::Php, "PHP", ParseDepth::FileLevel, &["php"], &["php"]),
    row(
        SourceLanguage::Shell,
        "shell",
        ParseDepth::FileLevel,
        &["sh", "bash", "zsh"],
        &["sh", "bash", "dash", "zsh"],
    ),
    row(SourceLanguage::Sql, "SQL", ParseDepth::FileLevel, &["sql"], &[]),
    row(SourceLanguage::Html, "HTML", ParseDepth::FileLevel, &["html", "htm"], &[]),
    row(SourceLanguage::Css, "CSS", ParseDepth::FileLevel, &["css", "scss", "less"], &[]),
];

const fn row(
    language: SourceLanguage,
    name: &'static str,
    depth: ParseDepth,
    extensions: &'static [&'static str],
    interpreters: &'static [&'static str],
) -> LanguageRow {
    LanguageRow { language, name, depth, extensions, interpreters }
}

/// How much of a header is searched for signs of C++.
const HEADER_PROBE_BYTES: usize = 64 * 1024;
/// Words that a C header does not begin a line with.
const CPP_SIGNS: &[&[u8]] = &[
    b"namespace ",
    b"class ",
    b"template ",
    b"template<",
    b"using ",
    b"public:",
    b"private:",
    b"constexpr ",
];

impl SourceLanguage {
    /// Returns the language of a file, or `None` if it is not one that this crate knows. `path` uses slashes.
    /// `source` may be a prefix: only the first line is read, and of a `.h` file the first 64 KiB.
    pub fn detect(path: &str, source: &[u8]) -> Option<Self> {
        let file_name = path.rsplit('/').next().unwrap_or(path);
        let by_extension =
            file_name.rsplit_once('.').and_then(|(_, extension)| Self::of_extension(extension));
        match by_extension {
            Some(Self::C) if file_name.ends_with(".h") && looks_like_cpp(source) => Some(Self::Cpp),
            Some(language) => Some(language),
            None => Self::of_first_line(source),
        }
    }

    /// Returns the language of a file-name extension, without its dot. Case does not matter.
    pub fn of_extension(extension: &str) -> Option<Self> {
        let found =
            ROWS.iter().find(|row| row.extensions.iter().any(|known| known.eq_ignore_ascii_case(extension)));
        found.map(|row| row.language)
    }

    fn of_first_line(source: &[u8]) -> Option<Self> {
        let line = source.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
        let line = std::str::from_utf8(line.get(..200).unwrap_or(line)).ok()?;
        let mut words = line.split_ascii_whitespace().map(|word| word.rsplit('/').next().unwrap_or(word));
        let first = words.next()?;
        let program = if first == "env" {
            words.find(|word| !word.starts_with('-') && !word.contains('='))?
        } else {
            first
        };
        // `python3.11` is python.
        let program = program.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
        ROWS.iter().find(|row| row.interpreters.contains(&program)).map(|row| row.language)
    }

    /// Name for people. TypeScript with and without JSX has one name.
    pub fn name(self) -> &'static str {
        self.row().map_or("", |row| row.name)
    }

    /// How much of this language is understood.
    pub fn depth(self) -> ParseDepth {
        self.row().map_or(ParseDepth::FileLevel, |row| row.depth)
    }

    fn row(self) -> Option<&'static LanguageRow> {
        ROWS.iter().find(|row| row.language == self)
    }
}

fn looks_like_cpp(source: &[u8]) -> bool {
    let probe = &source[..source.len().min(HEADER_PROBE_BYTES)];
    let guarded = probe.windows(11).any(|window| window == b"__cplusplus");
    let signs = probe.split(|byte| *byte == b'\n').any(|line| {
        let line = line.trim_ascii_start();
        CPP_SIGNS.iter().any(|sign| line.starts_with(sign))
    });
    // A header of C that C++ may include has its classes inside a guard, and no namespace.
    let namespaces = probe.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"namespace "));
    signs && (!guarded || namespaces)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_first_lines_tell_the_language() {
        let cases: &[(&str, &str, Option<SourceLanguage>)] = &[
            ("a/b.py", "", Some(SourceLanguage::Python)),
            ("B.TSX", "", Some(SourceLanguage::Tsx)),
            ("run", "#!/usr/bin/env python3.11\n", Some(SourceLanguage::Python)),
            ("run", "#!/usr/bin/env -S A=1 node\n", Some(SourceLanguage::JavaScript)),
            ("run", "#!/bin/bash -e\n", Some(SourceLanguage::Shell)),
            ("run", "plain text", None),
            ("x.h", "int f(void);\n", Some(SourceLanguage::C)),
            ("x.h", "#pragma once\nnamespace a {\n}\n", Some(SourceLanguage::Cpp)),
            ("x.h", "#ifdef __cplusplus\nextern \"C\" {\n#endif\nclass x;\n", Some(SourceLanguage::C)),
            ("py", "", None),
            ("", "", None),
        ];
        for (path, source, expected) in cases {
            assert_eq!(SourceLanguage::detect(path, source.as_bytes()), *expected, "{path} {source}");
        }
    }

    #[test]
    fn every_language_has_one_row() {
        for row in ROWS {
            assert_eq!(ROWS.iter().filter(|other| other.language == row.language).count(), 1);
            assert!(!row.language.name().is_empty());
        }
    }
}
