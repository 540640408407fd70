//! Editing a file in place: every edit applies, each at exactly one place, or the file stays as it was.

use std::fs::File;
use std::io::Read as _;

use rustix::fs::OFlags;
use rustix::io::Errno;
use sandyard_protocol::{Edit, EntryKind, Request};

use super::error::FileError;
use super::look::READ;
use super::look::reply_stat;
use super::path::RelativePath;
use super::wire::WorkerWire;
use super::workspace::{Workspace, stat_of};
use super::write::NewFile;
use crate::limits::EDIT_BYTES;

/// Applies edits to a UTF-8 file.
pub(super) fn edit(
    workspace: &Workspace,
    wire: &mut WorkerWire<'_>,
    request: &Request,
) -> Result<(), FileError> {
    let Request::Edit { path, edits } = request else { return Err(FileError::BadRequest("not an edit")) };
    let path = RelativePath::parse(path)?;
    // A link at the end is refused: replacing it would leave the file it points to unchanged.
    let file = workspace.resolve(&path, READ | OFlags::NOFOLLOW)?;
    let stat = stat_of(&file)?;
    match stat.kind {
        EntryKind::File if stat.size <= EDIT_BYTES => {}
        EntryKind::File => return Err(FileError::LimitReached("the file is too large to edit")),
        EntryKind::Directory => return Err(FileError::Kernel { what: "edit the file", errno: Errno::ISDIR }),
        _ => return Err(FileError::BadRequest("not a regular file")),
    }
    // All edits are applied in memory before anything is written, so a mismatch leaves the file as it was.
    let edited = apply(read_text(file.into())?, edits)?;
    let (directory, name) = workspace.parent(&path)?;
    let mut new = NewFile::create(directory)?;
    new.append(edited.as_bytes())?;
    new.place(name, stat.mode)?;
    reply_stat(workspace, wire, &path)
}

fn read_text(file: File) -> Result<String, FileError> {
    let mut bytes = Vec::new();
    // Bounded again: the file may have grown since its size was read.
    file.take(EDIT_BYTES + 1).read_to_end(&mut bytes).map_err(|error| FileError::Kernel {
        what: "read the file",
        errno: error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error),
    })?;
    if bytes.len() as u64 > EDIT_BYTES {
        return Err(FileError::LimitReached("the file is too large to edit"));
    }
    String::from_utf8(bytes).map_err(|_| FileError::BadRequest("the file is not UTF-8 text"))
}

/// Each edit sees the result of those before it.
fn apply(mut text: String, edits: &[Edit]) -> Result<String, FileError> {
    for (index, edit) in edits.iter().enumerate() {
        if edit.old.is_empty() {
            return Err(FileError::BadRequest("an edit's old text is empty"));
        }
        let found = occurrences(&text, &edit.old);
        let [place] = found.as_slice() else {
            return Err(FileError::EditMismatch { number: index + 1, found: found.len() });
        };
        text.replace_range(*place..*place + edit.old.len(), &edit.new);
        if text.len() as u64 > EDIT_BYTES {
            return Err(FileError::LimitReached("the edited file would be too large"));
        }
    }
    Ok(text)
}

/// The first two places, overlapping ones included: `aa` is twice in `aaa`, so which one was meant can't be known.
fn occurrences(text: &str, old: &str) -> Vec<usize> {
    let Some(first) = text.find(old) else { return Vec::new() };
    let step = old.chars().next().map_or(1, char::len_utf8);
    match text[first + step..].find(old) {
        Some(second) => vec![first, first + step + second],
        None => vec![first],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edits(pairs: &[(&str, &str)]) -> Vec<Edit> {
        pairs.iter().map(|(old, new)| Edit { old: (*old).into(), new: (*new).into() }).collect()
    }

    #[test]
    fn edits_apply_in_order() {
        let text =
            apply("one two".into(), &edits(&[("two", "three"), ("three", "four"), ("one ", "")])).unwrap();
        assert_eq!(text, "four");
    }

    #[test]
    fn a_text_that_is_missing_or_twice_there_is_refused() {
        for (text, old, count) in [("abc", "x", 0), ("abab", "ab", 2), ("aaa", "aa", 2), ("ééé", "éé", 2)]
        {
            let error = apply(text.into(), &edits(&[(old, "new")])).unwrap_err();
            assert!(
                matches!(error, FileError::EditMismatch { number: 1, found } if found == count),
                "{error}"
            );
        }
    }
}
