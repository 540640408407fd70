//! The role `folder-memory FOLDER INDEX [--count N] [--stands]`: the memory of any folder.
//!
//! Brings the index up to date with the folder, unless `--stands`, and prints what it has as JSON. Standard input holds a question, or nothing.

use std::ffi::OsString;
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;

use sandyard_context::index::{LexicalSettings, MemoryIndex};
use sandyard_context::recall::{CitedPassage, FusionSettings, RecallQuestion};
use sandyard_context::{EmbeddingModel, FolderReader, recall, sync};
use sandyard_memory::RecallScope;
use sandyard_memory::messages::{FolderMemory, FolderPassage};

use crate::confine::{ReaderFolders, ReaderSurroundings, confine};
use crate::failure::ReaderFailure;

/// A question has some words; an error message some lines.
const MAX_QUESTION_BYTES: u64 = 64 << 10;
/// Passages in one answer.
const MAX_PASSAGES: usize = 1000;

/// The arguments of the role.
#[derive(Debug, Default, PartialEq, Eq)]
struct FolderArguments {
    folder: PathBuf,
    index: PathBuf,
    count: usize,
    /// True if the index is only looked at.
    stands: bool,
}

pub(crate) fn run(arguments: &[OsString]) -> Result<Vec<u8>, ReaderFailure> {
    let arguments = parse(arguments)?;
    let read = [arguments.folder.as_path()];
    confine(&ReaderFolders { read: &read, written: Some(&arguments.index) }, ReaderSurroundings::Host)?;
    let mut question = String::new();
    let read = std::io::stdin().lock().take(MAX_QUESTION_BYTES).read_to_string(&mut question);
    read.map_err(|error| ReaderFailure::Read("read the question".to_owned(), error))?;
    let model = Arc::new(EmbeddingModel::shipped()?);
    let (mut index, opening) = MemoryIndex::open(&arguments.index, LexicalSettings::default(), Some(model))?;
    let dropped = opening.dropped.into_iter().map(|(file, why)| format!("{}: {why}", file.display()));
    let mut memory = FolderMemory { dropped: dropped.collect(), ..FolderMemory::default() };
    if !arguments.stands {
        memory.sync = Some(sync(&mut index, &arguments.folder, |_, _| {})?);
        index.flush()?;
        while index.tidy()? {}
    }
    memory.statistics = index.statistics();
    if !question.trim().is_empty() {
        let question =
            RecallQuestion { text: &question, count: arguments.count, scope: RecallScope::default() };
        let reader = FolderReader::new(&arguments.folder);
        let answer = recall(&index, &reader, &question, &FusionSettings::default());
        memory.unverified = answer.unverified;
        memory.passages = answer.passages.into_iter().map(passage).collect();
    }
    Ok(serde_json::to_vec(&memory)?)
}

fn passage(found: CitedPassage) -> FolderPassage {
    let text = found.words().into_owned();
    let CitedPassage { name, place, digest, score, .. } = found;
    let lines = (place.first_line, place.last_line);
    FolderPassage { text, name, score, path: place.source.path, lines, digest }
}

fn parse(arguments: &[OsString]) -> Result<FolderArguments, ReaderFailure> {
    let mut parsed = FolderArguments { count: 10, ..FolderArguments::default() };
    let mut plain = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.to_str() {
            Some("--stands") => parsed.stands = true,
            Some("--count") => {
                let count = rest.next().and_then(|count| count.to_str()?.parse().ok());
                parsed.count =
                    count.ok_or_else(|| ReaderFailure::Usage("--count needs a number".to_owned()))?;
            }
            _ => plain.push(PathBuf::from(argument)),
        }
    }
    parsed.count = parsed.count.min(MAX_PASSAGES);
    let [folder, index] = <[PathBuf; 2]>::try_from(plain)
        .map_err(|_| ReaderFailure::Usage("name a folder and the folder of its index".to_owned()))?;
    Ok(FolderArguments { folder, index, ..parsed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_read_in_any_order() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let parsed = parse(&words("--count 3 /x --stands /y")).unwrap();
        let expected = FolderArguments { folder: "/x".into(), index: "/y".into(), count: 3, stands: true };
        assert_eq!(parsed, expected);
        assert!(parse(&words("/x")).is_err() && parse(&words("/x /y --count")).is_err());
    }
}
