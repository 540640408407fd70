//! Names of directory entries: their form as text, and a directory's names in order with bounded memory.

use std::collections::BinaryHeap;
use std::ffi::CString;
use std::fmt::Write as _;
use std::os::fd::AsFd;

use rustix::fs::Dir;

use super::error::FileError;

/// A name, ordered by its form as text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    /// The name in messages: bytes that are not UTF-8 are percent-encoded.
    pub(super) shown: String,
    /// The name for system calls.
    pub(super) raw: CString,
}

impl Name {
    fn new(raw: CString) -> Self {
        Self { shown: show(raw.as_bytes()), raw }
    }

    /// Rough number of bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + self.shown.len() + self.raw.count_bytes()
    }
}

/// A page of a directory's names, sorted by their form as text.
pub(super) struct SortedNames {
    pub(super) names: Vec<Name>,
    /// True if the directory has more names after these.
    pub(super) more: bool,
}

/// Returns the first `count` names after `after`. Reads a directory of any size in one pass, with memory for `count` names.
pub(super) fn names_after(
    directory: impl AsFd,
    after: Option<&str>,
    count: usize,
) -> Result<SortedNames, FileError> {
    let mut first: BinaryHeap<Name> = BinaryHeap::new();
    let mut more = false;
    let entries = Dir::read_from(directory).map_err(FileError::kernel("read the directory"))?;
    for entry in entries {
        let entry = entry.map_err(FileError::kernel("read the directory"))?;
        let raw = entry.file_name();
        if matches!(raw.to_bytes(), b"." | b"..") {
            continue;
        }
        let name = Name::new(raw.to_owned());
        if after.is_some_and(|after| name.shown.as_str() <= after) {
            continue;
        }
        if first.len() < count {
            first.push(name);
        } else {
            more = true;
            if let Some(mut last) = first.peek_mut().filter(|last| name < **last) {
                *last = name;
            }
        }
    }
    Ok(SortedNames { names: first.into_sorted_vec(), more })
}

/// Text for bytes: UTF-8 as it is; otherwise each byte that is not, and `%`, is percent-encoded.
pub(super) fn show(bytes: &[u8]) -> String {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return text.to_owned();
    }
    let mut shown = String::new();
    for chunk in bytes.utf8_chunks() {
        shown.push_str(&chunk.valid().replace('%', "%25"));
        for byte in chunk.invalid() {
            // Writing to a string can't fail.
            let _ = write!(shown, "%{byte:02X}");
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_not_text_are_encoded() {
        assert_eq!(show(b"plain 100%"), "plain 100%");
        assert_eq!(show(b"a\xff%\xc3(b"), "a%FF%25%C3(b");
    }

    #[test]
    fn pages_follow_one_another_without_gap_or_repeat() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..100 {
            std::fs::write(folder.path().join(format!("{number:03}")), "").unwrap();
        }
        let directory = std::fs::File::open(folder.path()).unwrap();
        let mut seen = Vec::new();
        loop {
            let after = seen.last().map(|name: &Name| name.shown.clone());
            let page = names_after(&directory, after.as_deref(), 7).unwrap();
            seen.extend(page.names);
            if !page.more {
                break;
            }
        }
        let shown: Vec<_> = seen.into_iter().map(|name| name.shown).collect();
        assert_eq!(shown, (0..100).map(|number| format!("{number:03}")).collect::<Vec<_>>());
    }
}
