//! Reads the tokens of a source file into modules and follows its `mod` declarations.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::items::item_beginning;
use crate::tokens::{self, Token, TokenKind};

/// The names of a module and of those around it, outermost first; empty for the root.
pub(crate) type ModulePath = Vec<String>;

/// Returns a file's text, or `None` if the file does not exist.
pub(crate) type ReadFile<'a> = &'a dyn Fn(&Path) -> Option<Result<String, String>>;

/// What one module imports.
#[derive(Debug, Default)]
pub(crate) struct Module {
    /// The source file, relative to the source directory.
    pub(crate) file: String,
    pub(crate) paths: Vec<PathUse>,
    /// Names that `use` brought in, and their paths as written.
    pub(crate) aliases: BTreeMap<String, Vec<String>>,
    /// Names of the items that are declared here.
    pub(crate) items: BTreeSet<String>,
    /// Words that begin a path or stand alone, with the item that they are in.
    pub(crate) words: BTreeSet<(String, String)>,
}

/// A path as written.
#[derive(Debug)]
pub(crate) struct PathUse {
    pub(crate) segments: Vec<String>,
    pub(crate) line: usize,
    pub(crate) place: PathPlace,
}

/// Where a path stands in its module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PathPlace {
    /// Inside the item of that name.
    Item(String),
    /// In a `use` beside the items, which gives this name; `None` for `*` and `_`.
    Import(Option<String>),
    /// In a `pub use`.
    Reexport,
}

/// Adds the modules of a root file (`lib.rs` or `main.rs`) and of all files that it declares.
pub(crate) fn scan_root(
    modules: &mut BTreeMap<ModulePath, Module>,
    read: ReadFile<'_>,
    root: &Path,
    text: &str,
) -> Result<(), String> {
    let place = FilePlace { file: root.to_owned(), children: PathBuf::new() };
    TokenScan::new(modules, read, place, text).scan_file(Vec::new())
}

/// A source file and the directory where its child modules are.
#[derive(Debug, Clone)]
struct FilePlace {
    file: PathBuf,
    children: PathBuf,
}

/// Reads the tokens of one file into the tree.
struct TokenScan<'a> {
    modules: &'a mut BTreeMap<ModulePath, Module>,
    read: ReadFile<'a>,
    place: FilePlace,
    tokens: Vec<Token>,
    position: usize,
    /// The item of the present module that is being read.
    item: Option<String>,
}

impl<'a> TokenScan<'a> {
    fn new(
        modules: &'a mut BTreeMap<ModulePath, Module>,
        read: ReadFile<'a>,
        place: FilePlace,
        text: &str,
    ) -> Self {
        Self { modules, read, place, tokens: tokens::split(text), position: 0, item: None }
    }

    fn scan_file(&mut self, module: ModulePath) -> Result<(), String> {
        let file = self.place.file.to_string_lossy().into_owned();
        // `lib.rs` and `main.rs` are one root here.
        let entry = self.modules.entry(module.clone()).or_default();
        if entry.file.is_empty() {
            entry.file = file;
        }
        self.scan(&module)
    }

    fn kind(&self, ahead: usize) -> Option<&TokenKind> {
        self.tokens.get(self.position + ahead).map(|token| &token.kind)
    }

    fn word(&self, ahead: usize) -> Option<&str> {
        match self.kind(ahead) {
            Some(TokenKind::Word(word)) => Some(word),
            _ => None,
        }
    }

    fn mark(&self, ahead: usize) -> Option<char> {
        match self.kind(ahead) {
            Some(TokenKind::Mark(mark)) => Some(*mark),
            _ => None,
        }
    }

    /// Reads items up to the end of the file or of an inline module.
    fn scan(&mut self, module: &ModulePath) -> Result<(), String> {
        let mut depth = 0_usize;
        let mut path_attribute = None;
        while let Some(token) = self.tokens.get(self.position) {
            match &token.kind {
                TokenKind::Mark('#')
                    if self.mark(1) == Some('[')
                        || (self.mark(1), self.mark(2)) == (Some('!'), Some('[')) =>
                {
                    match self.attribute() {
                        Attribute::Test => self.skip_item(),
                        Attribute::Path(path) => path_attribute = Some(path),
                        Attribute::Other => {}
                    }
                    continue;
                }
                TokenKind::Mark('{') => depth += 1,
                TokenKind::Mark('}') => {
                    let Some(outer) = depth.checked_sub(1) else {
                        self.position += 1;
                        return Ok(());
                    };
                    depth = outer;
                }
                TokenKind::Word(word) => {
                    let word = word.clone();
                    if depth == 0 {
                        self.enter_item(&word, module);
                    }
                    self.scan_word(&word, module, &mut path_attribute)?;
                    continue;
                }
                _ => {}
            }
            self.position += 1;
        }
        Ok(())
    }

    /// Notes which item begins with a word between items.
    fn enter_item(&mut self, word: &str, module: &ModulePath) {
        if matches!(word, "use" | "mod") {
            self.item = None;
        } else if let Some(item) = item_beginning(&self.tokens, self.position) {
            // An `impl` belongs to the item of its type, which another module may declare.
            if word != "impl"
                && let Some(entry) = self.modules.get_mut(module)
            {
                entry.items.insert(item.clone());
            }
            self.item = Some(item);
        }
    }

    fn scan_word(
        &mut self,
        word: &str,
        module: &ModulePath,
        path_attribute: &mut Option<String>,
    ) -> Result<(), String> {
        match word {
            // `pub(in crate::x)` names a module without importing from it.
            "pub" => {
                self.position += 1;
                if self.mark(0) == Some('(')
                    && matches!(self.word(1), Some("crate" | "super" | "self" | "in"))
                {
                    self.skip_balanced();
                }
                if self.word(0) == Some("use") {
                    self.position += 1;
                    self.use_tree(module, &[], true);
                }
            }
            "mod" if self.word(1).is_some() => self.module_item(module, path_attribute.take())?,
            "use" if self.mark(1) != Some('<') => {
                self.position += 1;
                self.use_tree(module, &[], false);
            }
            _ => {
                *path_attribute = None;
                self.inline_path(module);
            }
        }
        Ok(())
    }

    /// `mod name;` or `mod name { … }`.
    fn module_item(&mut self, module: &ModulePath, path_attribute: Option<String>) -> Result<(), String> {
        let name = self.word(1).unwrap_or_default().to_owned();
        let path = child(module, &name);
        self.position += 2;
        if self.mark(0) == Some('{') {
            self.position += 1;
            let file = self.place.file.to_string_lossy().into_owned();
            self.modules.entry(path.clone()).or_default().file = file;
            let outer = self.place.clone();
            self.place.children.push(&name);
            let scanned = self.scan(&path);
            self.place = outer;
            self.item = None;
            return scanned;
        }
        let folder = self.place.file.parent().unwrap_or(Path::new(""));
        let candidates = match path_attribute {
            Some(file) => {
                let file = folder.join(file);
                vec![FilePlace { children: file.parent().unwrap_or(Path::new("")).to_owned(), file }]
            }
            None => {
                let children = self.place.children.join(&name);
                let [flat, nested] = [children.with_extension("rs"), children.join("mod.rs")];
                vec![
                    FilePlace { file: flat, children: children.clone() },
                    FilePlace { file: nested, children },
                ]
            }
        };
        for place in candidates {
            if let Some(text) = (self.read)(&place.file) {
                return TokenScan::new(self.modules, self.read, place, &text?).scan_file(path);
            }
        }
        Err(format!("{}: the file of `mod {name}` was not found", self.place.file.display()))
    }

    /// One tree of a `use` behind its prefix: `a::b`, `a::{b, c::d}`, `a::*`, `a as b`.
    fn use_tree(&mut self, module: &ModulePath, prefix: &[String], exported: bool) {
        let line = self.tokens.get(self.position).map_or(0, |token| token.line);
        let mut segments = prefix.to_vec();
        loop {
            match self.kind(0).cloned() {
                Some(TokenKind::PathSeparator) => self.position += 1,
                Some(TokenKind::Word(word)) if word == "as" => {
                    let name = self.word(1).unwrap_or_default().to_owned();
                    self.position += 2;
                    return self.import(module, segments, Some(name), (line, exported));
                }
                Some(TokenKind::Word(word)) => {
                    self.position += 1;
                    segments.push(word);
                }
                Some(TokenKind::Mark('{')) => {
                    self.position += 1;
                    while self.kind(0).is_some() && self.mark(0) != Some('}') {
                        self.use_tree(module, &segments, exported);
                        if self.mark(0) == Some(',') {
                            self.position += 1;
                        }
                    }
                    self.position += 1;
                    return;
                }
                Some(TokenKind::Mark('*')) => {
                    self.position += 1;
                    return self.import(module, segments, None, (line, exported));
                }
                // The end of this tree. Other marks do not occur in a `use` that compiles; one is skipped so that the scan goes on.
                Some(TokenKind::Mark(',' | '}' | ';')) | None => {
                    let name = segments.last().cloned();
                    return self.import(module, segments, name, (line, exported));
                }
                Some(_) => self.position += 1,
            }
        }
    }

    /// Stores one imported path and the name it gets here; `None` for `*`.
    fn import(
        &mut self,
        module: &ModulePath,
        mut segments: Vec<String>,
        mut name: Option<String>,
        (line, exported): (usize, bool),
    ) {
        // `a::{self}` is `a`.
        if segments.len() > 1 && segments.last().is_some_and(|last| last == "self") {
            segments.pop();
            if name.as_deref() == Some("self") {
                name = segments.last().cloned();
            }
        }
        let name = name.filter(|name| name != "_");
        let place = match &self.item {
            _ if exported => PathPlace::Reexport,
            Some(item) => PathPlace::Item(item.clone()),
            None => PathPlace::Import(name.clone()),
        };
        let Some(entry) = self.modules.get_mut(module) else { return };
        if let Some(name) = name {
            entry.aliases.insert(name, segments.clone());
        }
        entry.paths.push(PathUse { segments, line, place });
    }

    /// A path inside an item. A single word is no path: if it was imported, the `use` counts.
    fn inline_path(&mut self, module: &ModulePath) {
        let continues = self.position > 0
            && matches!(
                self.tokens.get(self.position - 1).map(|token| &token.kind),
                Some(TokenKind::PathSeparator | TokenKind::Mark('.'))
            );
        let line = self.tokens.get(self.position).map_or(0, |token| token.line);
        let mut segments = Vec::new();
        while let Some(word) = self.word(0).map(str::to_owned) {
            segments.push(word);
            self.position += 1;
            if self.kind(0) != Some(&TokenKind::PathSeparator) || self.word(1).is_none() {
                break;
            }
            self.position += 1;
        }
        // `name: …` declares or fills a field of that name.
        let names_field = segments.len() == 1 && self.mark(0) == Some(':');
        let Some(entry) = self.modules.get_mut(module).filter(|_| !continues) else { return };
        if let (Some(item), Some(first), false) = (&self.item, segments.first(), names_field) {
            entry.words.insert((item.clone(), first.clone()));
        }
        if segments.len() > 1 {
            let place = self.item.clone().map_or(PathPlace::Import(None), PathPlace::Item);
            entry.paths.push(PathUse { segments, line, place });
        }
    }

    /// Reads `#[…]` or `#![…]`.
    fn attribute(&mut self) -> Attribute {
        self.position += 1;
        if self.mark(0) == Some('!') {
            self.position += 1;
        }
        let start = self.position + 1;
        self.skip_balanced();
        let content = self.tokens.get(start..self.position.saturating_sub(1)).unwrap_or_default();
        let kinds: Vec<&TokenKind> = content.iter().map(|token| &token.kind).collect();
        let is = |kind: &TokenKind, word: &str| matches!(kind, TokenKind::Word(found) if found == word);
        match kinds.as_slice() {
            [name, TokenKind::Mark('('), test, TokenKind::Mark(')')]
                if is(name, "cfg") && is(test, "test") =>
            {
                Attribute::Test
            }
            [name, TokenKind::Mark('('), all, TokenKind::Mark('('), rest @ ..]
                if is(name, "cfg") && is(all, "all") =>
            {
                if rest.iter().any(|kind| is(kind, "test")) {
                    Attribute::Test
                } else {
                    Attribute::Other
                }
            }
            [name, TokenKind::Mark('='), TokenKind::Text(path)] if is(name, "path") => {
                Attribute::Path(path.clone())
            }
            _ => Attribute::Other,
        }
    }

    /// Skips the item, statement, field or arm behind an attribute, with its further attributes.
    fn skip_item(&mut self) {
        while self.mark(0) == Some('#') && self.mark(1) == Some('[') {
            self.attribute();
        }
        if self.word(0) == Some("pub") {
            self.position += 1;
            if self.mark(0) == Some('(') {
                self.skip_balanced();
            }
        }
        let end = self.item_end();
        while let Some(kind) = self.kind(0).cloned() {
            match kind {
                TokenKind::Mark(';') => {
                    self.position += 1;
                    return;
                }
                TokenKind::Mark(',') if end == ItemEnd::Comma => {
                    self.position += 1;
                    return;
                }
                TokenKind::Mark('{') => {
                    self.skip_balanced();
                    if end != ItemEnd::Semicolon {
                        return;
                    }
                }
                TokenKind::Mark('(' | '[') => self.skip_balanced(),
                // The end of what surrounds a last field or arm.
                TokenKind::Mark('}' | ')' | ']') => return,
                _ => self.position += 1,
            }
        }
    }

    fn item_end(&self) -> ItemEnd {
        const WITH_BLOCK: [&str; 11] = [
            "mod",
            "fn",
            "async",
            "unsafe",
            "extern",
            "struct",
            "enum",
            "union",
            "trait",
            "impl",
            "macro_rules",
        ];
        match self.word(0) {
            Some("const") if matches!(self.word(1), Some("fn" | "unsafe" | "async" | "extern")) => {
                ItemEnd::Block
            }
            Some("use" | "const" | "static" | "type" | "let") => ItemEnd::Semicolon,
            Some(word) if WITH_BLOCK.contains(&word) => ItemEnd::Block,
            _ => ItemEnd::Comma,
        }
    }

    /// Skips a group from its opening mark to its closing one.
    fn skip_balanced(&mut self) {
        let mut depth = 0_usize;
        while let Some(kind) = self.kind(0) {
            match kind {
                TokenKind::Mark('(' | '[' | '{') => depth += 1,
                TokenKind::Mark(')' | ']' | '}') => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.position += 1;
            if depth == 0 {
                return;
            }
        }
    }
}

enum Attribute {
    /// `cfg(test)`, alone or in `all(…)`.
    Test,
    /// `path = "…"`.
    Path(String),
    Other,
}

/// Where an item ends.
#[derive(PartialEq, Eq)]
enum ItemEnd {
    /// At a semicolon, whatever blocks come before it.
    Semicolon,
    /// At a semicolon or behind its first block.
    Block,
    /// Like `Block`, and at a comma.
    Comma,
}

/// The path of a module's child.
pub(crate) fn child(module: &[String], name: &str) -> ModulePath {
    module.iter().cloned().chain([name.to_owned()]).collect()
}
