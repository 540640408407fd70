//! What the imports of one file mean.

use std::collections::BTreeMap;

/// What a name of a file stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BoundName {
    /// A whole file.
    File(usize),
    /// A symbol of a file, which may have it from another.
    Symbol(usize, String),
    /// The symbols of all these files (a package of Go).
    Package(Vec<usize>),
}

/// A file that an import names, with its evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LinkedUse {
    pub(crate) to: usize,
    pub(crate) line: u32,
    pub(crate) symbol: String,
    pub(crate) to_symbol: Option<String>,
}

/// The imports of one file, resolved.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileLinks {
    pub(crate) uses: Vec<LinkedUse>,
    /// Local names; a dotted module is bound under its whole name.
    pub(crate) bindings: BTreeMap<String, BoundName>,
    /// Files of which all names are imported.
    pub(crate) wildcards: Vec<usize>,
    /// Name, line, and whether it comes with the language.
    pub(crate) libraries: Vec<(String, u32, bool)>,
}

impl FileLinks {
    pub(crate) fn link(&mut self, to: usize, line: u32, symbol: &str, to_symbol: Option<String>) {
        self.uses.push(LinkedUse { to, line, symbol: symbol.to_owned(), to_symbol });
    }

    /// Binds a name; a name that is bound twice to different things is ambiguous, and the first stays.
    pub(crate) fn bind(&mut self, local: &str, bound: BoundName) {
        self.bindings.entry(local.to_owned()).or_insert(bound);
    }

    pub(crate) fn library(&mut self, name: &str, line: u32, standard: bool) {
        if !name.is_empty() && name.len() < 100 {
            self.libraries.push((name.to_owned(), line, standard));
        }
    }
}
