//! Local files for a job: single ones and whole folders, without what `.gitignore` names.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sandyard_api::{Base64Bytes, FileBody, bounds, workspace_path};
use sandyard_explain::ignore::IgnoreRules;

use crate::errors::CommandError;
use crate::ui::counted;

/// Depth of folders.
const MAX_DEPTH: usize = 64;
/// Longest `.gitignore` that is read.
const IGNORE_BYTES: u64 = 256 * 1024;

/// The files of a request, with their size.
#[derive(Debug, Default)]
pub(super) struct RunFiles {
    files: BTreeMap<String, FileBody>,
    bytes: u64,
    /// Links and other things that are no files.
    pub(super) left_out: usize,
}

impl RunFiles {
    /// Reads the arguments of `--file` and `--dir`.
    pub(super) fn read(files: &[String], folder: Option<&Path>) -> Result<Self, CommandError> {
        let mut read = Self::default();
        if let Some(folder) = folder {
            read.folder(folder)?;
        }
        for argument in files {
            let (path, target) = split(argument)?;
            read.add(&path, target)?;
        }
        Ok(read)
    }

    /// Describes what is sent; `None` if nothing is.
    pub(super) fn summary(&self) -> Option<String> {
        let size = size(self.bytes);
        (!self.files.is_empty()).then(|| format!("{}, {size}", counted(self.files.len(), "file")))
    }

    pub(super) fn into_bodies(self) -> BTreeMap<String, FileBody> {
        self.files
    }

    fn add(&mut self, path: &Path, target: String) -> Result<(), CommandError> {
        let target = match workspace_path(&target) {
            Ok(target) if !target.is_empty() => target.to_owned(),
            Ok(_) => return Err(CommandError::usage("a file needs a name in the workspace")),
            Err(error) => return Err(CommandError::usage(format!("`{target}`: {}", error.message))),
        };
        let length = std::fs::metadata(path).map_err(CommandError::file("read", path))?.len();
        self.bytes = self.bytes.saturating_add(length);
        // Before the file is read: it may be larger than memory.
        if self.bytes > bounds::FILES_BYTES as u64 || self.files.len() >= bounds::FILES {
            return Err(too_much(path));
        }
        let bytes = std::fs::read(path).map_err(CommandError::file("read", path))?;
        let body = match String::from_utf8(bytes) {
            Ok(text) => FileBody::Text(text),
            Err(error) => FileBody::Bytes { base64: Base64Bytes(error.into_bytes()) },
        };
        self.files.insert(target, body);
        Ok(())
    }

    /// Adds the files of a folder, without recursion, so that a deep tree can't exhaust the stack.
    fn folder(&mut self, root: &Path) -> Result<(), CommandError> {
        let mut pending = vec![(root.to_owned(), String::new(), Vec::<IgnoreRules>::new(), 0)];
        while let Some((folder, base, mut rules, depth)) = pending.pop() {
            rules.extend(rules_of(&folder, &base));
            let entries = std::fs::read_dir(&folder).map_err(CommandError::file("read", &folder))?;
            for entry in entries {
                let entry = entry.map_err(CommandError::file("read", &folder))?;
                let kind = entry.file_type().map_err(CommandError::file("read", &entry.path()))?;
                let Ok(name) = entry.file_name().into_string() else {
                    self.left_out += 1;
                    continue;
                };
                let below = format!("{base}{name}");
                if name == ".git" || is_ignored(&rules, &below, kind.is_dir()) {
                    continue;
                }
                if kind.is_dir() && depth < MAX_DEPTH {
                    pending.push((entry.path(), format!("{below}/"), rules.clone(), depth + 1));
                } else if kind.is_file() {
                    self.add(&entry.path(), below)?;
                } else {
                    self.left_out += 1;
                }
            }
        }
        Ok(())
    }
}

fn is_ignored(rules: &[IgnoreRules], path: &str, is_folder: bool) -> bool {
    // The rules of the deepest folder come last, and win.
    rules.iter().rev().find_map(|rules| rules.decide(path, is_folder)).unwrap_or(false)
}

fn rules_of(folder: &Path, base: &str) -> Option<IgnoreRules> {
    let path = folder.join(".gitignore");
    let length = std::fs::symlink_metadata(&path).ok().filter(std::fs::Metadata::is_file)?.len();
    let text = std::fs::read_to_string(&path).ok().filter(|_| length <= IGNORE_BYTES)?;
    Some(IgnoreRules::parse(base, &text))
}

/// Splits `PATH[:DEST]`. Without a destination the file keeps its name; one that ends in a slash is a folder.
fn split(argument: &str) -> Result<(PathBuf, String), CommandError> {
    let whole = Path::new(argument);
    let (path, target) = match argument.rsplit_once(':') {
        Some((path, target)) if !whole.exists() => (Path::new(path), Some(target)),
        _ => (whole, None),
    };
    let name = path.file_name().and_then(|name| name.to_str()).ok_or_else(|| {
        CommandError::usage_with_hint(
            format!("`{argument}` names no file"),
            "write PATH or PATH:DEST; for a folder there is --dir",
        )
    })?;
    let target = match target.map(|target| target.strip_prefix("/workspace/").unwrap_or(target)) {
        None | Some("") => name.to_owned(),
        Some(folder) if folder.ends_with('/') => format!("{folder}{name}"),
        Some(target) => target.to_owned(),
    };
    Ok((path.to_owned(), target))
}

fn too_much(path: &Path) -> CommandError {
    let (mib, files) = (bounds::FILES_BYTES / (1024 * 1024), bounds::FILES);
    CommandError::usage_with_hint(
        format!("the files are too many or too large for one request, from `{}` on", path.display()),
        format!(
            "a request takes {files} files and {mib} MiB; name what is not needed in .gitignore, use --git, or open a session and use `sandyard cp`"
        ),
    )
}

/// Returns a size for people.
pub(super) fn size(bytes: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "shown with one digit after the point")]
    let in_units = |unit: u64| bytes as f64 / unit as f64;
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{:.1} KiB", in_units(1024)),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", in_units(1 << 20)),
        _ => format!("{:.1} GiB", in_units(1 << 30)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_without_what_gitignore_names() {
        let home = tempfile::tempdir().unwrap();
        for (path, text) in [
            (".gitignore", "target/\n*.log\n"),
            ("src/main.rs", "fn main() {}"),
            ("src/.gitignore", "!keep.log\n"),
            ("src/keep.log", "kept"),
            ("src/other.log", "x"),
            ("target/big", "x"),
            (".git/config", "x"),
        ] {
            let path = home.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        std::os::unix::fs::symlink("/etc/passwd", home.path().join("link")).unwrap();
        let read = RunFiles::read(&[], Some(home.path())).unwrap();
        let names: Vec<_> = read.files.keys().map(String::as_str).collect();
        assert_eq!(names, [".gitignore", "src/.gitignore", "src/keep.log", "src/main.rs"]);
        assert_eq!(read.left_out, 1);
        assert!(read.summary().unwrap().starts_with("4 files, "));
    }

    #[test]
    fn a_file_goes_where_it_is_told() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("a.csv");
        std::fs::write(&file, [0xff, 0xfe]).unwrap();
        let file = file.to_str().unwrap();
        for (given, target) in [
            (file.to_owned(), "a.csv"),
            (format!("{file}:data/b.csv"), "data/b.csv"),
            (format!("{file}:data/"), "data/a.csv"),
            (format!("{file}:/workspace/c"), "c"),
        ] {
            let read = RunFiles::read(&[given], None).unwrap();
            assert_eq!(read.files.keys().collect::<Vec<_>>(), [target]);
        }
        for bad in [format!("{file}:../x"), format!("{file}:/etc/x"), "absent".to_owned()] {
            assert!(RunFiles::read(&[bad.clone()], None).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_no_request_takes_is_refused_before_it_is_read() {
        let home = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(home.path().join("huge")).unwrap();
        file.set_len(1 << 40).unwrap();
        let refused = RunFiles::read(&[], Some(home.path())).unwrap_err();
        assert!(refused.to_string().contains("too many or too large"), "{refused}");
    }

    #[test]
    fn sizes_read_well() {
        assert_eq!(
            (size(5).as_str(), size(2048).as_str(), size(5 << 20).as_str()),
            ("5 bytes", "2.0 KiB", "5.0 MiB")
        );
    }
}
