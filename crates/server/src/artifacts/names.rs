//! What an entry of an archive may be called. The guest is not believed: whoever unpacks the zip must be safe.

use std::collections::HashSet;

use sandyard_protocol::EntryKind;

/// Why an entry is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    #[error("not a relative path inside the workspace")]
    Path,
    #[error("the name is longer than an archive can hold")]
    Long,
    #[error("the name occurs twice")]
    Twice,
    #[error("it lies below something that is not a directory")]
    Below,
}

/// Longest name in a zip: its field has 16 bits, and directories take a slash more.
const NAME_BYTES: usize = u16::MAX as usize - 1;

/// The names of an archive so far.
#[derive(Debug, Default)]
pub(super) struct Names {
    directories: HashSet<String>,
    /// Files and links: nothing may lie below them, or an unpacker would write through a link.
    leaves: HashSet<String>,
}

impl Names {
    /// The name in the archive, without a trailing slash.
    pub(super) fn accept(&mut self, path: &str, kind: EntryKind) -> Result<String, Refused> {
        if !is_plain(path) {
            return Err(Refused::Path);
        }
        // Other systems read a backslash as a separator.
        let name = path.replace('\\', "%5C");
        if name.len() > NAME_BYTES {
            return Err(Refused::Long);
        }
        let ancestors = name.match_indices('/').map(|(at, _)| &name[..at]);
        for ancestor in ancestors {
            if self.leaves.contains(ancestor) {
                return Err(Refused::Below);
            }
            if !self.directories.contains(ancestor) {
                self.directories.insert(ancestor.to_owned());
            }
        }
        let is_new = match kind {
            EntryKind::Directory => !self.leaves.contains(&name) && self.named_directory(&name),
            _ => !self.directories.contains(&name) && self.leaves.insert(name.clone()),
        };
        if is_new { Ok(name) } else { Err(Refused::Twice) }
    }

    /// A name at the top for a file of the host's: this one, or with a number before its ending if the job has it in whatever
    /// case, because not every file system tells cases apart.
    pub(super) fn free(&mut self, name: &str) -> String {
        let (stem, ending) = name.rsplit_once('.').unwrap_or((name, ""));
        let numbered = (2..).map(|number| format!("{stem}-{number}.{ending}"));
        let mut candidates = std::iter::once(name.to_owned()).chain(numbered);
        let taken = |candidate: &String| {
            let mut all = self.leaves.iter().chain(&self.directories);
            all.any(|name| name.trim_end_matches('/').eq_ignore_ascii_case(candidate))
        };
        let free = candidates.find(|candidate| !taken(candidate)).unwrap_or_default();
        self.leaves.insert(free.clone());
        free
    }

    /// A directory may be implied by what lies in it before it is named itself, once; the trailing slash marks the naming.
    fn named_directory(&mut self, name: &str) -> bool {
        self.directories.insert(name.to_owned());
        self.directories.insert(format!("{name}/"))
    }
}

fn is_plain(path: &str) -> bool {
    !path.is_empty()
        && !path.contains('\0')
        && path.split('/').all(|component| !component.is_empty() && component != "." && component != "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accept(names: &mut Names, path: &str, kind: EntryKind) -> Result<String, Refused> {
        names.accept(path, kind)
    }

    #[test]
    fn a_file_of_the_hosts_takes_no_name_of_the_jobs() {
        let mut names = Names::default();
        assert_eq!(names.free("changes.patch"), "changes.patch");
        let mut names = Names::default();
        accept(&mut names, "Changes.PATCH", EntryKind::File).unwrap();
        accept(&mut names, "changes-2.patch", EntryKind::Directory).unwrap();
        assert_eq!(names.free("changes.patch"), "changes-3.patch");
    }

    #[test]
    fn f10_names_that_would_leave_the_folder_are_refused() {
        for path in ["", "/etc/passwd", "..", "../x", "a/../../x", "a//b", "./a", "a/.", "a/", "a\0b"] {
            assert_eq!(accept(&mut Names::default(), path, EntryKind::File), Err(Refused::Path), "{path:?}");
        }
    }

    #[test]
    fn a_backslash_is_no_separator() {
        let name = accept(&mut Names::default(), "..\\..\\x", EntryKind::File);
        assert_eq!(name.as_deref(), Ok("..%5C..%5Cx"));
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        let mut names = Names::default();
        accept(&mut names, "a", EntryKind::Symlink).unwrap();
        assert_eq!(accept(&mut names, "a/passwd", EntryKind::File), Err(Refused::Below));
        assert_eq!(accept(&mut names, "a", EntryKind::Directory), Err(Refused::Twice));
        assert_eq!(accept(&mut names, "a", EntryKind::File), Err(Refused::Twice));
    }

    #[test]
    fn f17_names_that_differ_in_case_or_form_both_stay() {
        let mut names = Names::default();
        for path in ["read.me", "READ.ME", "caf\u{e9}", "cafe\u{301}"] {
            assert_eq!(accept(&mut names, path, EntryKind::File).as_deref(), Ok(path));
        }
    }

    #[test]
    fn a_directory_comes_once_before_or_after_its_content() {
        let mut names = Names::default();
        accept(&mut names, "d/e/f", EntryKind::File).unwrap();
        accept(&mut names, "d", EntryKind::Directory).unwrap();
        assert_eq!(accept(&mut names, "d", EntryKind::Directory), Err(Refused::Twice));
        assert_eq!(accept(&mut names, "d", EntryKind::Symlink), Err(Refused::Twice));
    }
}
