//! The walk over a folder on disk.
//!
//! Each folder is opened name by name from the first one without following links, so a folder that is exchanged for a
//! link meanwhile leads nowhere. Links are counted, never followed: there are no loops and no ways out.

use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, openat};
use sandyard_explain::facts::LeftOutCounts;
use sandyard_explain::ignore::IgnoreRules;
use sandyard_syntax::SourceLanguage;

use crate::files::classify::{has_generated_name, is_binary, is_built, is_generated, is_twin, is_vendored};
use crate::files::tree::{FileTree, TreeFile};

/// Bounds of a walk.
#[derive(Clone, Copy, Debug)]
pub struct WalkLimits {
    /// Files that are kept.
    pub files: usize,
    /// Bytes of all kept files.
    pub total_bytes: u64,
    /// Bytes of one file; the content of a larger one is not read.
    pub file_bytes: u64,
    /// Depth of folders.
    pub depth: usize,
    /// Names that are looked at, whatever they are.
    pub names: usize,
}

impl Default for WalkLimits {
    /// A million lines fit: about 40 MB in some ten thousand files.
    fn default() -> Self {
        Self { files: 50_000, total_bytes: 256 << 20, file_bytes: 4 << 20, depth: 64, names: 1_000_000 }
    }
}

/// Why a folder can't be read at all.
#[derive(Debug)]
pub struct WalkFailure {
    /// The folder.
    pub folder: PathBuf,
    /// What the system answered.
    pub source: std::io::Error,
}

impl std::fmt::Display for WalkFailure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "read the folder {}", self.folder.display())
    }
}

impl std::error::Error for WalkFailure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Files that are kept although no language claims them, because they describe the project.
const DESCRIBING: &[&str] = &[
    "package.json",
    "tsconfig.json",
    "jsconfig.json",
    "pyproject.toml",
    "setup.py",
    "setup.cfg",
    "requirements.txt",
    "Pipfile",
    "Cargo.toml",
    "go.mod",
    "pom.xml",
    "build.gradle",
    "build.gradle.kts",
    "settings.gradle",
    "Dockerfile",
    "Containerfile",
    "docker-compose.yml",
    "docker-compose.yaml",
    "compose.yml",
    "compose.yaml",
    "Makefile",
    "justfile",
    "CMakeLists.txt",
    "Gemfile",
    "composer.json",
    ".gitlab-ci.yml",
    "Procfile",
    "tox.ini",
    "deno.json",
];

struct FolderWalk {
    root: OwnedFd,
    limits: WalkLimits,
    names: usize,
    bytes: u64,
    files: Vec<TreeFile>,
    left_out: LeftOutCounts,
}

/// One folder that is still to be read.
struct PendingFolder {
    /// Path from the start, empty or with a slash at its end.
    base: String,
    depth: usize,
    rules: Vec<IgnoreRules>,
}

/// Reads the files of a folder that may hold facts.
///
/// # Errors
/// If the folder itself can't be opened. Anything inside that can't be read is counted.
pub fn read_folder(folder: &Path, limits: WalkLimits) -> Result<FileTree, WalkFailure> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    // Not `open`, which is another call of the kernel than the one that the reader's filter allows.
    let handle = openat(CWD, folder, flags, Mode::empty())
        .map_err(|error| WalkFailure { folder: folder.to_owned(), source: error.into() })?;
    let mut walk = FolderWalk {
        root: handle,
        limits,
        names: 0,
        bytes: 0,
        files: Vec::new(),
        left_out: LeftOutCounts::default(),
    };
    let mut pending = VecDeque::from([PendingFolder { base: String::new(), depth: 0, rules: Vec::new() }]);
    while let Some(next) = pending.pop_front() {
        walk.folder(next, &mut pending);
    }
    let name = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let files = walk.files.into_iter().map(|file| (file.path, file.bytes));
    let mut tree = FileTree::new(&name, files);
    tree.left_out = walk.left_out;
    Ok(tree)
}

impl FolderWalk {
    fn folder(&mut self, mut folder: PendingFolder, pending: &mut VecDeque<PendingFolder>) {
        let Ok(handle) = self.open(&folder.base) else {
            self.left_out.unreadable += 1;
            return;
        };
        let entries = self.entries(&handle);
        if let Some(bytes) = self.read(&handle, ".gitignore") {
            folder.rules.push(IgnoreRules::parse(&folder.base, &String::from_utf8_lossy(&bytes)));
        }
        let has_sources = entries.iter().any(|(name, kind)| match kind {
            FileType::Directory => matches!(name.as_str(), "src" | "lib" | "source"),
            _ => matches!(name.as_str(), "index.ts" | "index.tsx"),
        });
        let names: BTreeSet<String> = entries.iter().map(|(name, _)| name.clone()).collect();
        for (name, kind) in entries {
            let path = format!("{}{name}", folder.base);
            let is_folder = kind == FileType::Directory;
            if is_folder && is_vendored(&name) {
                // Never entered, so counted as one.
                self.left_out.vendored += u32::from(!name.starts_with('.') && name != "__pycache__");
            } else if is_folder && is_built(&name, has_sources) {
                self.left_out.generated += 1;
            } else if folder.rules.iter().rev().find_map(|rules| rules.decide(&path, is_folder)) == Some(true)
            {
                self.left_out.ignored += 1;
            } else if is_folder {
                self.enter(&folder, path, pending);
            } else if is_twin(&name, |other| names.contains(other)) {
                self.left_out.generated += 1;
            } else if kind == FileType::RegularFile {
                self.file(&handle, &name, path);
            } else {
                self.left_out.unreadable += 1;
            }
        }
    }

    /// Opens a folder below the first one.
    fn open(&self, base: &str) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut handle = openat(&self.root, ".", flags, Mode::empty())?;
        for name in base.split('/').filter(|name| !name.is_empty()) {
            handle = openat(&handle, name, flags, Mode::empty())?;
        }
        Ok(handle)
    }

    /// Names and kinds in a folder, sorted.
    fn entries(&mut self, folder: &OwnedFd) -> Vec<(String, FileType)> {
        let Ok(listing) = Dir::read_from(folder) else {
            self.left_out.unreadable += 1;
            return Vec::new();
        };
        let mut entries = Vec::new();
        for entry in listing.flatten() {
            let Ok(name) = entry.file_name().to_str() else {
                // A name that is no UTF-8 can be neither imported nor shown.
                self.left_out.unreadable += 1;
                continue;
            };
            if name == "." || name == ".." {
                continue;
            }
            self.names += 1;
            if self.names > self.limits.names {
                self.left_out.beyond_bounds += 1;
                break;
            }
            entries.push((name.to_owned(), entry.file_type()));
        }
        entries.sort_by(|left, right| left.0.cmp(&right.0));
        entries
    }

    fn enter(&mut self, folder: &PendingFolder, path: String, pending: &mut VecDeque<PendingFolder>) {
        if folder.depth >= self.limits.depth {
            self.left_out.beyond_bounds += 1;
            return;
        }
        let (base, rules) = (format!("{path}/"), folder.rules.clone());
        pending.push_back(PendingFolder { base, depth: folder.depth + 1, rules });
    }

    fn file(&mut self, folder: &OwnedFd, name: &str, path: String) {
        if has_generated_name(name) {
            self.left_out.generated += 1;
            return;
        }
        let known = describes(&path, name)
            || name.rsplit_once('.').is_some_and(|(_, end)| SourceLanguage::of_extension(end).is_some());
        let may_be_script = !name.contains('.');
        if !known && !may_be_script {
            self.left_out.other_text += 1;
            return;
        }
        if self.files.len() >= self.limits.files || self.bytes >= self.limits.total_bytes {
            self.left_out.beyond_bounds += 1;
            return;
        }
        let Some(bytes) = self.read(folder, name) else {
            self.left_out.unreadable += 1;
            return;
        };
        if bytes.len() as u64 > self.limits.file_bytes {
            self.left_out.beyond_bounds += 1;
        } else if is_binary(&bytes) {
            self.left_out.binary += 1;
        } else if !known && SourceLanguage::detect(&path, &bytes).is_none() {
            self.left_out.other_text += 1;
        } else if !describes(&path, name) && is_generated(&bytes) {
            self.left_out.generated += 1;
        } else {
            self.bytes += bytes.len() as u64;
            self.files.push(TreeFile { path, bytes });
        }
    }

    /// Reads a regular file, at most one byte more than allowed. A pipe or device is never opened for reading.
    fn read(&self, folder: &OwnedFd, name: &str) -> Option<Vec<u8>> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let handle = openat(folder, name, flags, Mode::empty()).ok()?;
        let file = File::from(handle);
        let metadata = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
        let mut bytes = Vec::with_capacity(metadata.len().min(self.limits.file_bytes) as usize);
        file.take(self.limits.file_bytes + 1).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }
}

fn describes(path: &str, name: &str) -> bool {
    let readme = name.to_ascii_lowercase();
    DESCRIBING.contains(&name)
        || name.ends_with(".csproj")
        || readme.starts_with("readme") && !path.contains('/')
        || path.starts_with(".github/workflows/") && (name.ends_with(".yml") || name.ends_with(".yaml"))
        || name.ends_with(".dockerfile")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_not_followed_and_others_are_counted() {
        let home = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &[u8]| {
            let path = home.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("a.py", b"x = 1\n");
        write("b.txt", b"x");
        write("binary.py", b"\0\0");
        write("node_modules/x/index.js", b"1");
        write("ignored/x.py", b"1");
        write(".gitignore", b"ignored/\n");
        write("src/gen.go", b"// Code generated by x. DO NOT EDIT.\n");
        write("dist/x.js", b"1");
        write("\"; rm -rf .py", b"1");
        std::os::unix::fs::symlink(home.path(), home.path().join("loop")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", home.path().join("link.py")).unwrap();
        let tree = read_folder(home.path(), WalkLimits::default()).unwrap();
        let paths: Vec<&str> = tree.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["\"; rm -rf .py", "a.py"]);
        let expected = LeftOutCounts {
            vendored: 1,
            generated: 2,
            binary: 1,
            ignored: 1,
            unreadable: 2,
            beyond_bounds: 0,
            other_text: 2,
        };
        assert_eq!(tree.left_out, expected);
    }

    #[test]
    fn bounds_hold() {
        let home = tempfile::tempdir().unwrap();
        for number in 0..5 {
            std::fs::write(home.path().join(format!("{number}.py")), vec![b'a'; 100]).unwrap();
        }
        std::fs::write(home.path().join("large.py"), vec![b'a'; 300]).unwrap();
        let limits = WalkLimits { files: 3, file_bytes: 200, ..WalkLimits::default() };
        let tree = read_folder(home.path(), limits).unwrap();
        assert_eq!((tree.files.len(), tree.left_out.beyond_bounds), (3, 3));
        assert!(read_folder(Path::new("/nonexistent"), limits).is_err());
    }
}
