//! Checks the names of entries. The guest is not trusted: unpacking the zip must be safe for everybody.
//!
//! A job can have millions of names, each as long as a path may be, so they are not kept. The guest must send them in order,
//! depth first and sorted in each directory. In that order no name comes twice, and none lies below a file or a link.

use std::collections::HashSet;

use sandyard_protocol::EntryKind;
use sha2::{Digest, Sha256};

/// Why an entry is left out of the archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NameRefusal {
    #[error("not a relative path inside the workspace")]
    Path,
    #[error("the name is longer than an archive can hold")]
    Long,
    #[error("the name occurs twice")]
    Twice,
    #[error("it does not follow its directory in order")]
    Order,
}

/// Longest name in a zip: the length has 16 bits, and a directory's name ends with another slash.
const MAX_NAME_BYTES: usize = u16::MAX as usize - 1;
/// Folder for the host's files, unless the job has an entry of that name.
const HOST_FOLDER: &str = ".sandyard";
/// Replaces a backslash, which other systems read as a separator.
const BACKSLASH: &str = "%5C";

/// A part of a SHA-256 that is long enough to rule out collisions.
type Digest16 = [u8; 16];

/// The state that checks the next name of an archive.
#[derive(Debug)]
pub(super) struct EntryNames {
    /// The components of the last accepted path.
    last: Vec<String>,
    /// True if that path is a directory, which the next entry may lie in. True for the workspace itself.
    in_directory: bool,
    /// Names at the top level, in lower case: the host's files must not take them.
    top: HashSet<Digest16>,
    /// Names that contain the replacement of a backslash: only these can come twice although the order holds.
    rewritten: HashSet<Digest16>,
}

impl Default for EntryNames {
    fn default() -> Self {
        Self { last: Vec::new(), in_directory: true, top: HashSet::new(), rewritten: HashSet::new() }
    }
}

impl EntryNames {
    /// Returns the name for the archive, without a trailing slash.
    pub(super) fn accept(&mut self, path: &str, kind: EntryKind) -> Result<String, NameRefusal> {
        if !is_plain(path) {
            return Err(NameRefusal::Path);
        }
        let name = path.replace('\\', BACKSLASH);
        if name.len() > MAX_NAME_BYTES {
            return Err(NameRefusal::Long);
        }
        let parts: Vec<&str> = path.split('/').collect();
        // The order is checked on the guest's own path: the replacement of backslashes would change it.
        self.check_order(&parts)?;
        if name.contains(BACKSLASH) && !self.rewritten.insert(digest(&name)) {
            return Err(NameRefusal::Twice);
        }
        if parts.len() == 1 {
            self.top.insert(digest(&name.to_ascii_lowercase()));
        }
        self.last.truncate(parts.len() - 1);
        self.last.extend(parts.last().map(|&part| part.to_owned()));
        self.in_directory = kind == EntryKind::Directory;
        Ok(name)
    }

    /// An entry lies in the last directory, or in one above it, behind all entries that were there before.
    fn check_order(&self, parts: &[&str]) -> Result<(), NameRefusal> {
        let shared = self.last.iter().zip(parts).take_while(|(one, other)| one == *other).count();
        let follows = match (self.last.get(shared), parts.get(shared)) {
            // The path equals the last one or a directory above it.
            (_, None) => return Err(NameRefusal::Twice),
            (None, Some(_)) => self.in_directory,
            (Some(last), Some(part)) => *part > last.as_str(),
        };
        if follows && parts.len() == shared + 1 { Ok(()) } else { Err(NameRefusal::Order) }
    }

    /// Returns a name for a file about the job: in the host's folder, or at the top level if the job has an entry of the
    /// folder's name. Call it after the job's own entries.
    pub(super) fn beside(&mut self, name: &str) -> String {
        if self.top.contains(&digest(HOST_FOLDER)) {
            self.free(&format!("sandyard-{name}"))
        } else {
            format!("{HOST_FOLDER}/{name}")
        }
    }

    /// Returns a name at the top level for a file of the host: `name`, or with a number before its ending if the job has that
    /// name. Case is ignored, because some file systems ignore it.
    pub(super) fn free(&mut self, name: &str) -> String {
        let (stem, ending) = name.rsplit_once('.').unwrap_or((name, ""));
        let numbered = (2..).map(|number| format!("{stem}-{number}.{ending}"));
        let mut candidates = std::iter::once(name.to_owned()).chain(numbered);
        candidates
            .find(|candidate| self.top.insert(digest(&candidate.to_ascii_lowercase())))
            .unwrap_or_default()
    }
}

fn digest(name: &str) -> Digest16 {
    let mut short = Digest16::default();
    short.copy_from_slice(&Sha256::digest(name)[..16]);
    short
}

fn is_plain(path: &str) -> bool {
    !path.is_empty()
        && !path.contains('\0')
        && path.split('/').all(|component| !component.is_empty() && component != "." && component != "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accept(names: &mut EntryNames, path: &str, kind: EntryKind) -> Result<String, NameRefusal> {
        names.accept(path, kind)
    }

    #[test]
    fn a_file_of_the_hosts_takes_no_name_of_the_jobs() {
        let mut names = EntryNames::default();
        assert_eq!(names.free("changes.patch"), "changes.patch");
        let mut names = EntryNames::default();
        accept(&mut names, "Changes.PATCH", EntryKind::File).unwrap();
        accept(&mut names, "changes-2.patch", EntryKind::Directory).unwrap();
        assert_eq!(names.free("changes.patch"), "changes-3.patch");
    }

    #[test]
    fn what_tells_of_the_job_is_in_a_folder_of_the_hosts_or_beside_one_of_the_jobs() {
        let mut names = EntryNames::default();
        accept(&mut names, "src", EntryKind::Directory).unwrap();
        assert_eq!(names.beside("audit.jsonl"), ".sandyard/audit.jsonl");
        for (kind, name) in [(EntryKind::Directory, ".sandyard"), (EntryKind::Symlink, ".Sandyard")] {
            let mut names = EntryNames::default();
            accept(&mut names, name, kind).unwrap();
            accept(&mut names, "sandyard-files.jsonl", EntryKind::File).unwrap();
            assert_eq!(names.beside("audit.jsonl"), "sandyard-audit.jsonl");
            assert_eq!(names.beside("files.jsonl"), "sandyard-files-2.jsonl");
        }
    }

    #[test]
    fn f10_names_that_would_leave_the_folder_are_refused() {
        for path in ["", "/etc/passwd", "..", "../x", "a/../../x", "a//b", "./a", "a/.", "a/", "a\0b"] {
            assert_eq!(
                accept(&mut EntryNames::default(), path, EntryKind::File),
                Err(NameRefusal::Path),
                "{path:?}"
            );
        }
    }

    #[test]
    fn a_backslash_is_no_separator() {
        let name = accept(&mut EntryNames::default(), "..\\..\\x", EntryKind::File);
        assert_eq!(name.as_deref(), Ok("..%5C..%5Cx"));
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        let mut names = EntryNames::default();
        accept(&mut names, "a", EntryKind::Symlink).unwrap();
        assert_eq!(accept(&mut names, "a/passwd", EntryKind::File), Err(NameRefusal::Order));
        assert_eq!(accept(&mut names, "a", EntryKind::Directory), Err(NameRefusal::Twice));
        assert_eq!(accept(&mut names, "a", EntryKind::File), Err(NameRefusal::Twice));
        accept(&mut names, "b", EntryKind::Directory).unwrap();
        accept(&mut names, "b/c", EntryKind::File).unwrap();
        assert_eq!(accept(&mut names, "a/passwd", EntryKind::File), Err(NameRefusal::Order));
        assert_eq!(accept(&mut names, "b/c/d", EntryKind::File), Err(NameRefusal::Order));
        assert_eq!(accept(&mut names, "b", EntryKind::Symlink), Err(NameRefusal::Twice));
    }

    #[test]
    fn f17_names_that_differ_in_case_or_form_both_stay() {
        let mut names = EntryNames::default();
        for path in ["READ.ME", "cafe\u{301}", "caf\u{e9}", "read.me"] {
            assert_eq!(accept(&mut names, path, EntryKind::File).as_deref(), Ok(path));
        }
    }

    #[test]
    fn what_reads_the_same_in_the_archive_is_there_once() {
        let mut names = EntryNames::default();
        accept(&mut names, "a%5Cb", EntryKind::Directory).unwrap();
        accept(&mut names, "a%5Cb/c", EntryKind::File).unwrap();
        accept(&mut names, "a0", EntryKind::File).unwrap();
        assert_eq!(accept(&mut names, "a\\b", EntryKind::Directory), Err(NameRefusal::Twice));
        assert_eq!(accept(&mut names, "a\\b/c", EntryKind::File), Err(NameRefusal::Order));
    }

    #[test]
    fn a_tree_comes_depth_first_and_sorted() {
        let mut names = EntryNames::default();
        for (path, kind) in [
            ("d", EntryKind::Directory),
            ("d/e", EntryKind::Directory),
            ("d/e/f", EntryKind::File),
            ("d/e.txt", EntryKind::File),
            ("d.txt", EntryKind::File),
        ] {
            assert_eq!(accept(&mut names, path, kind).as_deref(), Ok(path));
        }
        for path in ["d/g", "d/e/g", "c", "d.txt/x", "z/y"] {
            assert_eq!(accept(&mut names, path, EntryKind::File), Err(NameRefusal::Order), "{path}");
        }
    }

    /// A million of the longest names would take gigabytes.
    #[test]
    fn long_names_are_not_kept() {
        let mut names = EntryNames::default();
        let deep = vec!["d".repeat(200); 20];
        for depth in 1..=deep.len() {
            accept(&mut names, &deep[..depth].join("/"), EntryKind::Directory).unwrap();
        }
        for number in 0..10_000 {
            accept(&mut names, &format!("{}/{number:05}", deep.join("/")), EntryKind::File).unwrap();
        }
        assert_eq!((names.last.len(), names.top.len(), names.rewritten.len()), (21, 1, 0));
    }

    /// No accepted name leads out of the folder that an archive is unpacked into, and none comes twice.
    #[test]
    fn fuzz_names() {
        sandyard_fuzz::FuzzCorpus::of(env!("CARGO_MANIFEST_DIR"), "names").run(|bytes| {
            let (text, mut names, mut seen) =
                (String::from_utf8_lossy(bytes), EntryNames::default(), HashSet::new());
            for line in text.split('\n') {
                let (kind, path) = line.split_once(' ').unwrap_or(("f", line));
                let kind = match kind {
                    "d" => EntryKind::Directory,
                    "l" => EntryKind::Symlink,
                    _ => EntryKind::File,
                };
                if let Ok(name) = names.accept(path, kind) {
                    let parts_are_plain =
                        name.split('/').all(|part| !part.is_empty() && part != "." && part != "..");
                    assert!(
                        parts_are_plain && !name.contains(['\\', '\0']) && name.len() <= MAX_NAME_BYTES,
                        "{name:?}"
                    );
                    assert!(seen.insert(name));
                }
            }
            for name in ["SUMMARY.md", "changes.patch"] {
                assert!(seen.insert(names.free(name)));
            }
        });
    }
}
