//! The notebook of each language: every execution is a cell in `session.<language>.ipynb` of the workspace.
//!
//! The cells are kept on keeper's disk, and the file is written anew from them by a file worker, in one step, a moment after
//! the last cell. A file that is not exactly the one we wrote last belongs to somebody else now: it stays as it is,
//! and the next number is begun.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandyard_protocol::Language;
use serde::{Deserialize, Serialize};

use super::language::KernelKind;
use crate::keeper::Keeper;
use crate::keeper::files::{Identity, Replace, Replaced};
use crate::keeper::spool::{Spool, SpoolError};
use crate::limits::kernels::{MOST_NOTEBOOK_BYTES, NOTEBOOK_BYTES, NOTEBOOK_COPIES, NOTEBOOK_GATHER};

const DOCUMENT: &str = "notebooks.json";
const SEPARATOR: &[u8] = b",\n";

/// All notebooks.
#[derive(Debug)]
pub(in crate::keeper) struct Notebooks {
    books: Mutex<BTreeMap<Language, Book>>,
    /// One writing at a time.
    writing: tokio::sync::Mutex<()>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Book {
    /// Which file: the first has no number.
    number: u32,
    /// Bytes of its cells.
    bytes: u64,
    /// The file as we wrote it last.
    written: Option<Identity>,
    /// Whether there are cells that are not in the file.
    dirty: bool,
    #[serde(skip)]
    waiting: bool,
}

impl Notebooks {
    /// What the spool knows of them.
    pub(super) fn open(spool: &Spool) -> Result<Self, SpoolError> {
        let books = spool.load(DOCUMENT)?.unwrap_or_default();
        Ok(Self { books: Mutex::new(books), writing: tokio::sync::Mutex::new(()) })
    }

    fn books(&self) -> MutexGuard<'_, BTreeMap<Language, Book>> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds a cell, and sees to it that the file is written soon.
pub(super) fn add(keeper: &Arc<Keeper>, language: Language, cell: &[u8]) {
    let mut books = keeper.kernels.notebooks.books();
    let book = books.entry(language).or_default();
    let bytes = book.bytes + cell.len() as u64;
    if bytes > MOST_NOTEBOOK_BYTES {
        return;
    }
    // The next number is begun once this one is written, so that no cell is left out.
    if bytes > NOTEBOOK_BYTES && !book.dirty && book.bytes > 0 {
        *book = Book { number: book.number + 1, waiting: book.waiting, ..Book::default() };
    }
    // A spool that is full costs the cell, not the execution.
    let Ok(bytes) = append(&cells(keeper, language), book.bytes, cell) else { return };
    book.bytes = bytes;
    book.dirty = true;
    let begin = !std::mem::replace(&mut book.waiting, true);
    let _ = keeper.spool.store(DOCUMENT, &*books);
    drop(books);
    if begin {
        let owner = keeper.clone();
        keeper.tasks.spawn(async move {
            tokio::time::sleep(NOTEBOOK_GATHER).await;
            if let Some(book) = owner.kernels.notebooks.books().get_mut(&language) {
                book.waiting = false;
            }
            write(&owner, language).await;
        });
    }
}

/// Writes what is not written yet; before the workspace is taken out.
pub(in crate::keeper) async fn flush(keeper: &Arc<Keeper>) {
    for language in Language::ALL {
        write(keeper, language).await;
    }
}

/// Writes one notebook, under the next number for as long as somebody else's file has the name.
async fn write(keeper: &Arc<Keeper>, language: Language) {
    let _turn = keeper.kernels.notebooks.writing.lock().await;
    for _ in 0..NOTEBOOK_COPIES {
        let Some(book) = keeper.kernels.notebooks.books().get(&language).filter(|book| book.dirty).cloned()
        else {
            return;
        };
        let Ok((size, mut content)) = content(keeper, language, book.bytes) else { return };
        let replace = Replace { replace: name(language, book.number), size, expected: book.written };
        // A workspace that is full or a worker that was killed: the next cell tries again.
        let Ok(replaced) = keeper.files.replace(keeper, &replace, &mut content).await else { return };
        let mut books = keeper.kernels.notebooks.books();
        let Some(now) = books.get_mut(&language) else { return };
        match replaced {
            Replaced::Written(identity) => {
                now.written = Some(identity);
                now.dirty = now.bytes != book.bytes;
            }
            Replaced::Taken => {
                now.number += 1;
                now.written = None;
            }
        }
        let _ = keeper.spool.store(DOCUMENT, &*books);
        if matches!(replaced, Replaced::Written(_)) {
            return;
        }
    }
}

fn name(language: Language, number: u32) -> String {
    match number {
        0 => format!("session.{}.ipynb", language.as_str()),
        number => format!("session.{}-{}.ipynb", language.as_str(), number + 1),
    }
}

fn cells(keeper: &Keeper, language: Language) -> PathBuf {
    keeper.config.spool.join(format!("{}.cells", language.as_str()))
}

/// Adds to the cells after so many bytes; a half-written one of before is overwritten.
fn append(path: &PathBuf, bytes: u64, cell: &[u8]) -> io::Result<u64> {
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    file.set_len(bytes)?;
    let mut whole = Vec::with_capacity(cell.len() + SEPARATOR.len());
    if bytes > 0 {
        whole.extend_from_slice(SEPARATOR);
    }
    whole.extend_from_slice(cell);
    file.write_all(&whole)?;
    Ok(bytes + whole.len() as u64)
}

/// The whole notebook and its length.
fn content(keeper: &Keeper, language: Language, bytes: u64) -> io::Result<(u64, impl Read + Send)> {
    let kind = KernelKind::of(language);
    let (head, tail) = (
        "{\"cells\": [\n".to_owned(),
        format!(
            "\n], \"metadata\": {{\"kernelspec\": {{\"display_name\": \"{}\", \"language\": \"{}\", \"name\": \"{}\"}}, \
         \"language_info\": {{\"name\": \"{}\"}}}}, \"nbformat\": 4, \"nbformat_minor\": 5}}\n",
            kind.display_name, kind.language_name, kind.kernel_name, kind.language_name
        ),
    );
    let file = File::open(cells(keeper, language))?;
    let size = head.len() as u64 + bytes + tail.len() as u64;
    Ok((size, io::Cursor::new(head).chain(file.take(bytes)).chain(io::Cursor::new(tail))))
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
