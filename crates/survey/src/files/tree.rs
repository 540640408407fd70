//! A tree of files in memory.

use sandyard_explain::facts::LeftOutCounts;

/// A file of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeFile {
    /// Path from the folder, with slashes. Bytes that are no UTF-8 are replaced.
    pub path: String,
    /// Content.
    pub bytes: Vec<u8>,
}

/// Files that may hold facts, sorted by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileTree {
    /// Name of the folder.
    pub name: String,
    /// Files, sorted by path, each path once.
    pub files: Vec<TreeFile>,
    /// Files that were left out.
    pub left_out: LeftOutCounts,
}

impl FileTree {
    /// Makes a tree of paths and contents.
    pub fn new(name: &str, files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Self {
        let mut files: Vec<TreeFile> =
            files.into_iter().map(|(path, bytes)| TreeFile { path, bytes }).collect();
        files.sort_by(|left, right| left.path.cmp(&right.path));
        files.dedup_by(|left, right| left.path == right.path);
        Self { name: name.to_owned(), files, left_out: LeftOutCounts::default() }
    }

    /// The file at a path.
    pub fn get(&self, path: &str) -> Option<&TreeFile> {
        let at = self.files.binary_search_by(|file| file.path.as_str().cmp(path)).ok()?;
        self.files.get(at)
    }
}
