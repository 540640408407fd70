//! A folder of segments with one fresh segment on top.
//!
//! The folder is a cache. Opening it drops every file that is damaged or made with other settings, and reports it; the caller then adds
//! the sources that `has` does not know. Files are written under another name and renamed, so a process that dies leaves whole segments
//! or leftovers that the next opening removes. A file lock keeps a second process out.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashSet};

use crate::chunk::{Chunk, chunks, readable};
use crate::embed::EmbeddingModel;
use crate::index::analysis::{ChunkFields, LexicalSettings};
use crate::index::document::{DocumentKey, DocumentPlace, DocumentRow, RepeatedDocument};
use crate::index::fresh::FreshSegment;
use crate::index::merge::merge;
use crate::index::segment::{SealedSegment, SearchableSegment, SegmentFlaw};
use sandyard_memory::messages::{IndexStatistics, KnownSources};
use sandyard_memory::{ContentDigest, SourceId, SourceOrigin, SourceRecord};

/// The fresh segment is sealed when it was made of this much text. Bounds the memory of the analysis.
const FRESH_TEXT_BYTES: u64 = 16 << 20;
/// More sealed segments than this are worth a merge: each costs a look into its dictionary for every term.
const MOST_SEGMENTS: usize = 12;

/// Why the index can't go on. The folder may always be deleted.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The folder can't be created, locked or listed.
    #[error("open the index in {}", folder.display())]
    Folder {
        /// The folder of the index.
        folder: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another process has the index open.
    #[error("another process uses the index in {}", folder.display())]
    Busy {
        /// The folder of the index.
        folder: PathBuf,
    },
    /// A segment can't be written. What was added stays searchable until the process ends.
    #[error("write {}", file.display())]
    Write {
        /// The file that was to be written.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// What opening an index found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct IndexOpening {
    /// Files that were dropped, and why. Their sources must be added again.
    pub dropped: Vec<(PathBuf, String)>,
}

/// A text to be added.
#[derive(Debug, Clone, Copy)]
pub struct SourceText<'t> {
    /// The name under which the text is read again.
    pub id: SourceId,
    /// Where the text came from.
    pub origin: SourceOrigin,
    /// Path or title; its words are searched too.
    pub path: &'t str,
    /// When the text was stored, in milliseconds since 1970; 0 if unknown.
    pub at_ms: u64,
    /// The text. Bytes that are not UTF-8 are searched as question marks; binary data is noted and not searched.
    pub bytes: &'t [u8],
}

/// An index in a folder.
#[derive(Debug)]
pub struct MemoryIndex {
    folder: PathBuf,
    _lock: File,
    settings: LexicalSettings,
    model: Option<Arc<EmbeddingModel>>,
    fingerprint: u64,
    /// With their numbers, oldest first.
    sealed: Vec<(u64, SealedSegment)>,
    fresh: FreshSegment,
    known: HashMap<SourceId, ContentDigest, RandomState>,
    keys: HashSet<DocumentKey, RandomState>,
    forgotten: HashSet<SourceId, RandomState>,
}

impl MemoryIndex {
    /// Opens the index in a folder, which is created if it is missing.
    ///
    /// # Errors
    ///
    /// The folder can't be used, or another process has it open. Damaged files are no error: they are dropped and reported.
    pub fn open(
        folder: &Path,
        settings: LexicalSettings,
        model: Option<Arc<EmbeddingModel>>,
    ) -> Result<(Self, IndexOpening), IndexError> {
        let failed = |source| IndexError::Folder { folder: folder.to_owned(), source };
        // The confined reader may neither make nor stat folders; its own is there.
        if fs::read_dir(folder).is_err() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let lock = File::create(folder.join("lock")).map_err(failed)?;
        lock.try_lock().map_err(|error| match error {
            fs::TryLockError::WouldBlock => IndexError::Busy { folder: folder.to_owned() },
            fs::TryLockError::Error(source) => failed(source),
        })?;
        let model_print = model.as_ref().map_or(0, |model| model.fingerprint());
        let mut index = Self {
            folder: folder.to_owned(),
            _lock: lock,
            settings,
            fingerprint: u64::from(settings.fingerprint()) << 32 | u64::from(model_print),
            model,
            sealed: Vec::new(),
            fresh: FreshSegment::new(settings),
            known: HashMap::default(),
            keys: HashSet::default(),
            forgotten: HashSet::default(),
        };
        let opening = index.load().map_err(failed)?;
        Ok((index, opening))
    }

    fn load(&mut self) -> io::Result<IndexOpening> {
        let mut opening = IndexOpening::default();
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            match segment_number(&path) {
                Some(number) => files.push((number, path)),
                None if path.extension().is_some_and(|ending| ending == "new") => fs::remove_file(&path)?,
                None => {}
            }
        }
        files.sort();
        for (number, path) in files {
            let opened = match fs::read(&path) {
                Ok(bytes) => SealedSegment::open(bytes, self.fingerprint).map_err(|flaw| flaw.to_string()),
                Err(error) => Err(error.to_string()),
            };
            match opened {
                Ok(segment) => self.sealed.push((number, segment)),
                Err(why) => opening.dropped.push((path, why)),
            }
        }
        self.remove_replaced();
        self.learn_sealed();
        // Repeats refer to documents of other segments. If one of those is gone, by damage or by deletion, nothing can be relied on.
        if !opening.dropped.is_empty() || !self.is_closed() {
            if opening.dropped.is_empty() {
                opening.dropped.push((self.folder.clone(), "a part of it is missing".to_owned()));
            }
            self.clear()?;
        }
        Ok(opening)
    }

    /// A process may have died between writing a merged segment and deleting those that it replaces.
    fn remove_replaced(&mut self) {
        let replaced: Vec<u64> =
            self.sealed.iter().flat_map(|(_, segment)| segment.head.replaces.iter().copied()).collect();
        let folder = &self.folder;
        self.sealed.retain(|(number, _)| {
            let kept = !replaced.contains(number);
            if !kept {
                // A leftover that can't be deleted is ignored again by the next opening.
                let _ = fs::remove_file(segment_path(folder, *number));
            }
            kept
        });
    }

    fn learn_sealed(&mut self) {
        for (_, segment) in &self.sealed {
            for source in segment.sources() {
                self.known.insert(source.record.id, source.record.digest);
            }
            for number in 0..segment.documents() {
                self.keys.extend(segment.document(number).map(|row| row.key));
            }
        }
    }

    /// True if each repeated document is in the index.
    fn is_closed(&self) -> bool {
        let mut repeats = self.sealed.iter().flat_map(|(_, segment)| segment.repeats());
        repeats.all(|repeat| self.keys.contains(&repeat.key))
    }

    /// Drops everything, on disk too.
    fn clear(&mut self) -> io::Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if segment_number(&path).is_some() {
                fs::remove_file(path)?;
            }
        }
        self.sealed.clear();
        self.known.clear();
        self.keys.clear();
        Ok(())
    }

    /// True if the index has this text of this source.
    pub fn has(&self, id: SourceId, digest: ContentDigest) -> bool {
        self.known.get(&id) == Some(&digest)
    }

    /// The last sources that it has of a journal, whose texts were added in order.
    pub fn known_sources(&self) -> KnownSources {
        let mut known = KnownSources::default();
        self.known.keys().for_each(|&id| known.add(id));
        known
    }

    /// Adds a source; it is found from now on. A source that the index has already costs nothing.
    ///
    /// # Errors
    ///
    /// The fresh segment was full and can't be written. The source was added nevertheless.
    pub fn add(&mut self, source: SourceText<'_>) -> Result<(), IndexError> {
        self.add_cut(source, |text| chunks(source.path, text))
    }

    /// Adds a source that is cut by `cut`, for a caller that knows better borders than the format of the text has.
    ///
    /// # Errors
    ///
    /// As for `add`.
    pub fn add_cut(
        &mut self,
        source: SourceText<'_>,
        cut: impl FnOnce(&str) -> Vec<Chunk>,
    ) -> Result<(), IndexError> {
        let digest = ContentDigest::of(source.bytes);
        if self.has(source.id, digest) {
            return Ok(());
        }
        if let Some(text) = readable(source.bytes) {
            for chunk in cut(&text) {
                self.add_chunk(source, &text, &chunk);
            }
        }
        let SourceText { id, origin, path, at_ms, bytes } = source;
        let bytes = bytes.len() as u64;
        self.fresh.close_source(SourceRecord { id, origin, path: path.to_owned(), at_ms, digest, bytes });
        self.known.insert(id, digest);
        self.forgotten.remove(&id);
        if self.fresh.text_bytes() >= FRESH_TEXT_BYTES { self.flush() } else { Ok(()) }
    }

    fn add_chunk(&mut self, source: SourceText<'_>, text: &str, chunk: &Chunk) {
        let (Some(bytes), Some(words)) =
            (source.bytes.get(chunk.bytes.clone()), text.get(chunk.bytes.clone()))
        else {
            return;
        };
        let key = DocumentKey::new(ContentDigest::of(bytes), source.path);
        let place = DocumentPlace {
            source: self.fresh.next_source(),
            start: chunk.bytes.start as u64,
            first_line: chunk.first_line,
            last_line: chunk.last_line,
        };
        if !self.keys.insert(key) {
            self.fresh.add_repeat(RepeatedDocument { key, place });
            return;
        }
        let bytes = chunk.bytes.len() as u32;
        let row = DocumentRow { key, kind: chunk.kind, bytes, name: chunk.name.clone(), place };
        let searched = chunk.searched.as_deref().unwrap_or(words);
        let fields = ChunkFields { text: searched, name: &chunk.name, path: source.path };
        self.fresh.add_document(row, fields, self.model.as_deref());
    }

    /// Forgets the sources for which `keep` is false, for folders whose files change. Their chunks are not found any more; their room is
    /// freed by `tidy`.
    pub fn retain(&mut self, mut keep: impl FnMut(SourceId, ContentDigest) -> bool) {
        let forgotten = &mut self.forgotten;
        self.known.retain(|&id, &mut digest| {
            let kept = keep(id, digest);
            if !kept {
                forgotten.insert(id);
            }
            kept
        });
    }

    /// Writes the fresh segment to the folder.
    ///
    /// # Errors
    ///
    /// The file can't be written; the sources stay searchable in memory.
    pub fn flush(&mut self) -> Result<(), IndexError> {
        if self.fresh.is_empty() {
            return Ok(());
        }
        let bytes = self.fresh.seal(self.fingerprint, self.vector_bytes());
        self.write(bytes, 0..0)?;
        self.fresh = FreshSegment::new(self.settings);
        Ok(())
    }

    /// Does one piece of housekeeping: frees the room of forgotten sources, or merges small segments. Returns false if there was nothing
    /// to do. Call it when there is time; it reads and writes at most the whole index.
    ///
    /// # Errors
    ///
    /// The merged segment can't be written. Nothing has changed then.
    pub fn tidy(&mut self) -> Result<bool, IndexError> {
        let sources: usize = self.sealed.iter().map(|(_, segment)| segment.sources().len()).sum();
        let compacts = self.forgotten.len() * 4 > sources.max(1);
        let first = if compacts { 0 } else { merge_start(&self.sealed) };
        let fewest = if compacts { 1 } else { 2 };
        if self.sealed.len() - first < fewest {
            return Ok(false);
        }
        if compacts {
            self.flush()?;
        }
        let inputs: Vec<_> =
            self.sealed[first..].iter().map(|(number, segment)| (*number, segment)).collect();
        let nothing = HashSet::default();
        let bytes = merge(&inputs, if compacts { &self.forgotten } else { &nothing });
        self.write(bytes, first..self.sealed.len())?;
        if compacts {
            self.forgotten.clear();
            self.keys.clear();
            self.known.clear();
            self.learn_sealed();
        }
        Ok(true)
    }

    /// Writes a segment and puts it in the place of others.
    fn write(&mut self, bytes: Vec<u8>, replaced: std::ops::Range<usize>) -> Result<(), IndexError> {
        let number = self.sealed.iter().map(|(number, _)| number + 1).max().unwrap_or(1);
        let file = segment_path(&self.folder, number);
        let unfinished = file.with_extension("new");
        let written = fs::write(&unfinished, &bytes).and_then(|()| fs::rename(&unfinished, &file));
        if let Err(source) = written {
            // What was written of it takes room on a disk that may be full.
            let _ = fs::remove_file(&unfinished);
            return Err(IndexError::Write { file, source });
        }
        let segment = SealedSegment::open(bytes, self.fingerprint).map_err(|flaw: SegmentFlaw| {
            IndexError::Write { file: file.clone(), source: io::Error::other(flaw.to_string()) }
        })?;
        let place = if replaced.is_empty() { self.sealed.len() } else { replaced.start };
        let old: Vec<_> = self.sealed.drain(replaced).collect();
        self.sealed.insert(place, (number, segment));
        for (number, _) in old {
            // The new segment names those that it replaces; a leftover is removed by the next opening.
            let _ = fs::remove_file(segment_path(&self.folder, number));
        }
        Ok(())
    }

    /// Sizes of the index.
    pub fn statistics(&self) -> IndexStatistics {
        let mut statistics = IndexStatistics {
            sources: self.known.len() as u64,
            segments: self.sealed.len() as u64,
            text_bytes: self.fresh.text_bytes(),
            ..IndexStatistics::default()
        };
        for (_, segment) in &self.sealed {
            statistics.text_bytes += segment.head.text_bytes;
            statistics.file_bytes += segment.file_bytes();
        }
        for segment in self.segments() {
            statistics.chunks += u64::from(segment.documents());
            statistics.repeats += segment.repeats().len() as u64;
        }
        statistics
    }

    /// All segments, oldest first.
    pub(crate) fn segments(&self) -> Vec<&dyn SearchableSegment> {
        let sealed = self.sealed.iter().map(|(_, segment)| segment as &dyn SearchableSegment);
        sealed.chain([&self.fresh as &dyn SearchableSegment]).collect()
    }

    pub(crate) fn model(&self) -> Option<&EmbeddingModel> {
        self.model.as_deref()
    }

    pub(crate) fn is_forgotten(&self, id: SourceId) -> bool {
        self.forgotten.contains(&id)
    }

    /// True if any source is forgotten whose documents are still in a segment.
    pub(crate) fn has_forgotten(&self) -> bool {
        !self.forgotten.is_empty()
    }

    fn vector_bytes(&self) -> u32 {
        self.model.as_ref().map_or(0, |model| model.vector_bytes() as u32)
    }
}

/// The first of the newest segments that are worth a merge: those that are together at least half as large as the one before.
fn merge_start(sealed: &[(u64, SealedSegment)]) -> usize {
    if sealed.len() <= MOST_SEGMENTS {
        return sealed.len();
    }
    let mut start = sealed.len() - 1;
    let mut together = sealed[start].1.file_bytes();
    while start > 0 && sealed[start - 1].1.file_bytes() <= together * 2 {
        start -= 1;
        together += sealed[start].1.file_bytes();
    }
    start
}

fn segment_path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:08}.segment"))
}

fn segment_number(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    name.strip_suffix(".segment")?.parse().ok()
}
