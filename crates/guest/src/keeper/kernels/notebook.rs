//! The notebook of each language: every execution is a cell in `session.<language>.ipynb` of the workspace.
//!
//! The cells are kept on keeper's disk. A moment after the last cell, a file worker writes the whole file anew from them, in one
//! step. A file that is not exactly the one that keeper wrote last belongs to somebody else now: it stays as it is, and keeper goes
//! on with the next number.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use sandyard_protocol::Language;
use serde::{Deserialize, Serialize};

use super::language::KernelKind;
use crate::keeper::core::KeeperCore;
use crate::keeper::files::{FileWorkers, Identity, Replace, Replaced};
use crate::keeper::spool::SpoolError;
use crate::limits::kernels::{MOST_NOTEBOOK_BYTES, NOTEBOOK_BYTES, NOTEBOOK_COPIES, NOTEBOOK_GATHER};

const DOCUMENT: &str = "notebooks.json";
const SEPARATOR: &[u8] = b",\n";

/// The notebooks of all languages.
#[derive(Debug)]
pub(super) struct Notebooks {
    core: Arc<KeeperCore>,
    files: Arc<FileWorkers>,
    books: Mutex<BTreeMap<Language, NotebookState>>,
    /// Held while a file is written: one at a time.
    writing: tokio::sync::Mutex<()>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct NotebookState {
    /// Number of the file, counting from 0.
    number: u32,
    /// Bytes of the cells.
    bytes: u64,
    /// The file as keeper wrote it last.
    written: Option<Identity>,
    /// True if there are cells that are not in the file.
    dirty: bool,
    /// True while a task waits to write the file.
    #[serde(skip)]
    waiting: bool,
}

impl Notebooks {
    /// Opens the notebooks in the spool.
    pub(super) fn open(core: Arc<KeeperCore>, files: Arc<FileWorkers>) -> Result<Self, SpoolError> {
        let books = core.spool.load(DOCUMENT)?.unwrap_or_default();
        Ok(Self { core, files, books: Mutex::new(books), writing: tokio::sync::Mutex::new(()) })
    }

    /// Adds a cell. The file is written a moment later.
    pub(super) fn add(self: &Arc<Self>, language: Language, cell: &[u8]) {
        let mut books = self.books();
        let book = books.entry(language).or_default();
        let bytes = book.bytes + cell.len() as u64;
        if bytes > MOST_NOTEBOOK_BYTES {
            return;
        }
        // The next number begins only after this notebook was written, so that no cell is left out.
        if bytes > NOTEBOOK_BYTES && !book.dirty && book.bytes > 0 {
            *book =
                NotebookState { number: book.number + 1, waiting: book.waiting, ..NotebookState::default() };
        }
        // A full spool costs the cell, not the execution.
        let Ok(bytes) = append(&self.cells(language), book.bytes, cell) else { return };
        book.bytes = bytes;
        book.dirty = true;
        let begin = !std::mem::replace(&mut book.waiting, true);
        // After the cell: a document that counts bytes which are not there would make the notebook unreadable.
        let _ = self.core.spool.store(DOCUMENT, &*books);
        drop(books);
        if begin {
            let owner = self.clone();
            self.core.tasks.spawn(async move {
                tokio::time::sleep(NOTEBOOK_GATHER).await;
                if let Some(book) = owner.books().get_mut(&language) {
                    book.waiting = false;
                }
                owner.write(language).await;
            });
        }
    }

    /// Writes the cells that are in no file yet; called before the workspace is exported.
    pub(super) async fn flush(&self) {
        for language in Language::ALL {
            self.write(language).await;
        }
    }

    /// Writes one notebook. While somebody else's file has its name, tries the next number.
    async fn write(&self, language: Language) {
        // One writer at a time: two would replace each other's file and take it for somebody else's.
        let _turn = self.writing.lock().await;
        for _ in 0..NOTEBOOK_COPIES {
            let Some(book) = self.books().get(&language).filter(|book| book.dirty).cloned() else {
                return;
            };
            let Ok((size, mut content)) = self.content(language, book.bytes) else { return };
            let replace = Replace { replace: name(language, book.number), size, expected: book.written };
            // The workspace may be full, or the worker was killed: the next cell tries again.
            let Ok(replaced) = self.files.replace(&replace, &mut content).await else { return };
            let mut books = self.books();
            let Some(now) = books.get_mut(&language) else { return };
            match replaced {
                Replaced::Written(identity) => {
                    now.written = Some(identity);
                    // Cells may have been added while the file was being written.
                    now.dirty = now.bytes != book.bytes;
                }
                Replaced::Taken => {
                    now.number += 1;
                    now.written = None;
                }
            }
            let _ = self.core.spool.store(DOCUMENT, &*books);
            if matches!(replaced, Replaced::Written(_)) {
                return;
            }
        }
    }

    /// File of the cells of a language in the spool.
    fn cells(&self, language: Language) -> PathBuf {
        self.core.spool.path(&format!("{}.cells", language.as_str()))
    }

    /// Returns the length of the whole notebook and its content.
    fn content(&self, language: Language, bytes: u64) -> io::Result<(u64, impl Read + Send + use<>)> {
        let kind = KernelKind::of(language);
        let head = "{\"cells\": [\n".to_owned();
        let tail = format!(
            "\n], \"metadata\": {{\"kernelspec\": {{\"display_name\": \"{}\", \"language\": \"{}\", \"name\": \"{}\"}}, \
         \"language_info\": {{\"name\": \"{}\"}}}}, \"nbformat\": 4, \"nbformat_minor\": 5}}\n",
            kind.display_name, kind.language_name, kind.kernel_name, kind.language_name
        );
        let file = File::open(self.cells(language))?;
        let size = head.len() as u64 + bytes + tail.len() as u64;
        Ok((size, io::Cursor::new(head).chain(file.take(bytes)).chain(io::Cursor::new(tail))))
    }

    fn books(&self) -> MutexGuard<'_, BTreeMap<Language, NotebookState>> {
        self.books.lock()
    }
}

fn name(language: Language, number: u32) -> String {
    match number {
        0 => format!("session.{}.ipynb", language.as_str()),
        number => format!("session.{}-{}.ipynb", language.as_str(), number + 1),
    }
}

/// Appends a cell after the first `bytes` bytes; a half-written cell of a killed keeper is overwritten.
fn append(path: &PathBuf, bytes: u64, cell: &[u8]) -> io::Result<u64> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    // `bytes` is from the stored document. Anything behind it was written by a keeper that died before it stored the new length.
    file.set_len(bytes)?;
    let mut whole = Vec::with_capacity(cell.len() + SEPARATOR.len());
    if bytes > 0 {
        whole.extend_from_slice(SEPARATOR);
    }
    whole.extend_from_slice(cell);
    file.write_all(&whole)?;
    Ok(bytes + whole.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_begin_with_the_second() {
        assert_eq!(name(Language::Python, 0), "session.python.ipynb");
        assert_eq!(name(Language::Typescript, 1), "session.typescript-2.ipynb");
    }

    #[test]
    fn half_a_cell_of_a_killed_keeper_is_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("python.cells");
        let bytes = append(&path, 0, b"one").unwrap();
        append(&path, bytes, b"half of tw").unwrap();
        let bytes = append(&path, bytes, b"two").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"one,\ntwo");
        assert_eq!(bytes, 8);
    }
}
