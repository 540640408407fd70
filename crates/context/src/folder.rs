//! Memory of a folder: its text files are the sources.
//!
//! `sync` reads every file, adds what is new and forgets what is gone, so the index always stands for the folder as it is. Links are not
//! followed; files that are too large, binary or unreadable are counted and left out.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use hashbrown::HashMap;
use rustix::fs::{Mode, OFlags};

use crate::chunk::readable;
use crate::index::{IndexError, MemoryIndex, SourceText};
use sandyard_memory::messages::FolderSync;
use sandyard_memory::{ContentDigest, SourceId, SourceOrigin, SourceReader, SourceRecord, estimate_tokens};

/// A larger file is data and not something that people or agents read.
const LARGEST_FILE_BYTES: u64 = 16 << 20;
/// Folders below folders; deeper ones are loops of bind mounts or attacks.
const DEEPEST: usize = 64;
/// Folders whose contents are others' work or bookkeeping, made again by a command.
const SKIPPED_FOLDERS: [&str; 8] =
    [".git", ".hg", ".svn", "node_modules", "target", "__pycache__", ".venv", ".sandyard-context"];

/// Brings the index up to date with a folder. `progress` is called after each file with the path and the count so far.
///
/// # Errors
///
/// The index can't be written.
pub fn sync(
    index: &mut MemoryIndex,
    folder: &Path,
    mut progress: impl FnMut(&str, u64),
) -> Result<FolderSync, IndexError> {
    let mut found = FolderSync::default();
    let mut present: HashMap<SourceId, ContentDigest, foldhash::fast::RandomState> = HashMap::default();
    for path in files(folder) {
        let name = relative(folder, &path);
        let Some(bytes) = read_file(&path) else {
            found.skipped += 1;
            continue;
        };
        let Some(text) = readable(&bytes) else {
            found.skipped += 1;
            continue;
        };
        let digest = ContentDigest::of(&bytes);
        let id = file_id(&name, digest);
        present.insert(id, digest);
        found.files += 1;
        found.bytes += bytes.len() as u64;
        if !index.has(id, digest) {
            found.added += 1;
            found.tokens += estimate_tokens(&text);
            index.add(SourceText { id, origin: SourceOrigin::File, path: &name, at_ms: 0, bytes: &bytes })?;
        }
        progress(&name, found.files);
    }
    index.retain(|id, digest| present.get(&id) == Some(&digest));
    Ok(found)
}

/// Reads files of a folder again for citations.
#[derive(Debug, Clone)]
pub struct FolderReader {
    folder: PathBuf,
}

impl FolderReader {
    /// A reader of the files below `folder`.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }
}

impl SourceReader for FolderReader {
    fn read(&self, source: &SourceRecord) -> Option<Vec<u8>> {
        // The path comes from an index file: it must not lead out of the folder.
        let path = Path::new(&source.path);
        let inside = path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        if inside { read_file(&self.folder.join(path)) } else { None }
    }
}

/// A file has another id when its contents change, so the index never mixes two versions.
fn file_id(name: &str, digest: ContentDigest) -> SourceId {
    let hash = ContentDigest::of(format!("{name}\0{digest}").as_bytes()).to_bytes();
    let mut number = [0; 8];
    number.copy_from_slice(&hash[..8]);
    SourceId { number: u64::from_le_bytes(number), part: 0 }
}

fn read_file(path: &Path) -> Option<Vec<u8>> {
    // The file that was looked at is the file that is read: a name may be exchanged for a link or a pipe in between. Both calls also
    // exist under one name on every processor, so the filter of the reader allows them.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let mut file = fs::File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    let facts = file.metadata().ok()?;
    if !facts.is_file() || facts.len() > LARGEST_FILE_BYTES {
        return None;
    }
    let mut bytes = Vec::new();
    // A file that grows meanwhile stays within the bound too.
    Read::by_ref(&mut file).take(LARGEST_FILE_BYTES).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn relative(folder: &Path, path: &Path) -> String {
    path.strip_prefix(folder).unwrap_or(path).to_string_lossy().into_owned()
}

/// All files below a folder, sorted by path.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            let skipped = SKIPPED_FOLDERS.iter().any(|skipped| entry.file_name() == *skipped);
            if kind.is_dir() && depth < DEEPEST && !skipped {
                folders.push((entry.path(), depth + 1));
            } else if kind.is_file() {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    found
}
