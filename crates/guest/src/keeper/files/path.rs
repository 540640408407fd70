//! Paths in requests: relative to the workspace, plain, bounded. Says nothing about the file they lead to.

use sandyard_protocol::limits::{NAME_BYTES, PATH_BYTES};

use super::error::FileError;

/// A validated path. Empty means the workspace itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RelativePath {
    text: String,
}

impl RelativePath {
    /// Parses components between slashes and drops `.` and empty ones. Rejects components that could lead out or can't be names,
    /// before the kernel sees them.
    pub(super) fn parse(text: &str) -> Result<Self, FileError> {
        // The kernel's PATH_MAX counts the terminating NUL.
        if text.len() >= PATH_BYTES {
            return Err(FileError::InvalidPath("the path is too long"));
        }
        if text.starts_with('/') {
            return Err(FileError::InvalidPath("the path must be relative to the workspace"));
        }
        if text.contains('\0') {
            return Err(FileError::InvalidPath("the path contains a NUL byte"));
        }
        let mut plain = String::with_capacity(text.len());
        for component in text.split('/').filter(|component| !matches!(*component, "" | ".")) {
            if component == ".." {
                return Err(FileError::InvalidPath("`..` is not allowed in a path"));
            }
            if component.len() > NAME_BYTES {
                return Err(FileError::InvalidPath("a name in the path is too long"));
            }
            if !plain.is_empty() {
                plain.push('/');
            }
            plain.push_str(component);
        }
        Ok(Self { text: plain })
    }

    /// The path for a system call: `.` for the workspace itself.
    pub(super) fn as_kernel(&self) -> &str {
        if self.text.is_empty() { "." } else { &self.text }
    }

    /// The path as text; empty for the workspace itself.
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// The directory and the name in it; `None` for the workspace itself.
    pub(super) fn split(&self) -> Option<(RelativePath, &str)> {
        if self.text.is_empty() {
            return None;
        }
        let (parent, name) = self.text.rsplit_once('/').unwrap_or(("", &self.text));
        Some((RelativePath { text: parent.to_owned() }, name))
    }

    /// Every ancestor below the workspace and the path itself, outermost first.
    pub(super) fn prefixes(&self) -> impl Iterator<Item = RelativePath> + '_ {
        let inner = self.text.match_indices('/').map(|(end, _)| end);
        let whole = (!self.text.is_empty()).then_some(self.text.len());
        inner.chain(whole).map(|end| RelativePath { text: self.text[..end].to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_could_lead_out_or_is_no_name_is_refused() {
        let long_name = "n".repeat(256);
        let long_path = "a/".repeat(2048);
        for bad in ["..", "../x", "a/../b", "a/..", "/", "/etc/passwd", "a\0b", "\0", &long_name, &long_path]
        {
            assert!(
                matches!(RelativePath::parse(bad), Err(FileError::InvalidPath(_))),
                "{bad:?} was accepted"
            );
        }
    }

    #[test]
    fn odd_but_lawful_names_stay_as_they_are() {
        for good in
            ["a\nb", "-rf", "...", "..a", "a..", "%2e%2e", "..%2fx", "a\\..\\b", " ", "C:\\x", "ü/日本"]
        {
            assert_eq!(RelativePath::parse(good).unwrap().as_str(), good);
        }
    }

    #[test]
    fn redundant_parts_are_dropped() {
        assert_eq!(RelativePath::parse("./a//b/./c/").unwrap().as_str(), "a/b/c");
        assert_eq!(RelativePath::parse("").unwrap().as_kernel(), ".");
        let prefixes: Vec<_> =
            RelativePath::parse("a/b/c").unwrap().prefixes().map(|path| path.text).collect();
        assert_eq!(prefixes, ["a", "a/b", "a/b/c"]);
    }

    proptest! {
        #[test]
        fn whatever_is_accepted_is_plain(text in "[a./\\x00 ]{0,24}|\\PC{0,64}") {
            if let Ok(path) = RelativePath::parse(&text) {
                prop_assert!(!path.text.starts_with('/') && !path.text.ends_with('/') && !path.text.contains('\0'));
                prop_assert!(path.text.is_empty() || path.text.split('/').all(|part| !matches!(part, "" | "." | "..")));
                prop_assert_eq!(RelativePath::parse(path.as_str()).unwrap(), path);
            }
        }
    }
}
