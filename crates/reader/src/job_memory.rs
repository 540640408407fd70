//! The role `job-memory INDEX`: holds the index of one job's memory for as long as the host talks to it.
//!
//! Texts, questions and replies are messages of `sandyard_memory::messages`. The process reads no file but those of the index, so
//! whatever a text does to a parser, it reaches no other job. It ends with its standard input.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::sync::Arc;

use sandyard_context::index::{LexicalSettings, MemoryIndex, SourceText};
use sandyard_context::recall::{FusionSettings, RecallQuestion};
use sandyard_context::{EmbeddingModel, find};
use sandyard_memory::messages::{
    MAX_MESSAGE_BYTES, MemoryQuestion, MemoryReply, MemoryRequest, TextAnnouncement,
};

use crate::confine::{ReaderFolders, ReaderSurroundings, confine};
use crate::failure::ReaderFailure;

/// Longest text: kept texts are cut into parts of that size.
const MAX_TEXT_BYTES: u64 = 64 << 20;
/// Passages beyond those that were asked for, in case that the host can't cite some.
const SPARE_PASSAGES: usize = 8;

pub(crate) fn run(arguments: &[OsString]) -> Result<Vec<u8>, ReaderFailure> {
    let [folder] = arguments else {
        return Err(ReaderFailure::Usage("name the folder of the index".to_owned()));
    };
    let folder = Path::new(folder);
    confine(&ReaderFolders { read: &[], written: Some(folder) }, ReaderSurroundings::Host)?;
    let model = Arc::new(EmbeddingModel::shipped()?);
    let (index, opening) = MemoryIndex::open(folder, LexicalSettings::default(), Some(model))?;
    let dropped = opening.dropped.into_iter().map(|(file, why)| format!("{}: {why}", file.display()));
    let opened = MemoryReply::Opened { known: index.known_sources(), dropped: dropped.collect() };
    let mut talk = MemoryTalk {
        index,
        input: BufReader::new(std::io::stdin().lock()),
        output: std::io::stdout().lock(),
    };
    talk.reply(&opened)?;
    while let Some(request) = talk.request()? {
        if let Some(reply) = talk.serve(request)? {
            talk.reply(&reply)?;
        }
    }
    Ok(Vec::new())
}

/// The talk with the host.
struct MemoryTalk<I, O> {
    index: MemoryIndex,
    input: I,
    output: O,
}

impl<I: BufRead, O: Write> MemoryTalk<I, O> {
    /// The next request; `None` once the host is gone.
    fn request(&mut self) -> Result<Option<MemoryRequest>, ReaderFailure> {
        let mut line = Vec::new();
        let taken = (&mut self.input).take(MAX_MESSAGE_BYTES as u64).read_until(b'\n', &mut line);
        taken.map_err(|error| ReaderFailure::Read("read a request".to_owned(), error))?;
        if line.is_empty() { Ok(None) } else { Ok(Some(serde_json::from_slice(&line)?)) }
    }

    fn serve(&mut self, request: MemoryRequest) -> Result<Option<MemoryReply>, ReaderFailure> {
        match request {
            MemoryRequest::Add(text) => self.add(&text).map(|()| None),
            MemoryRequest::Find(question) => Ok(Some(self.find(&question))),
            MemoryRequest::Save => Ok(Some(self.save())),
        }
    }

    fn add(&mut self, text: &TextAnnouncement) -> Result<(), ReaderFailure> {
        let failed = |error| ReaderFailure::Read("read a text".to_owned(), error);
        if text.bytes > MAX_TEXT_BYTES {
            return Err(failed(std::io::ErrorKind::FileTooLarge.into()));
        }
        let mut bytes = Vec::new();
        (&mut self.input).take(text.bytes).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() as u64 != text.bytes {
            return Err(failed(std::io::ErrorKind::UnexpectedEof.into()));
        }
        let TextAnnouncement { id, origin, path, at_ms, .. } = text;
        let source = SourceText { id: *id, origin: *origin, path, at_ms: *at_ms, bytes: &bytes };
        // A full disk keeps the text in memory, where it is found: an index that can't be saved is made again.
        let _ = self.index.add(source);
        Ok(())
    }

    fn find(&self, question: &MemoryQuestion) -> MemoryReply {
        let MemoryQuestion { text, count, scope } = question;
        let question = RecallQuestion { text, count: count + SPARE_PASSAGES, scope: scope.clone() };
        MemoryReply::Found { passages: find(&self.index, &question, &FusionSettings::default()) }
    }

    fn save(&mut self) -> MemoryReply {
        match self.index.flush().and_then(|()| self.index.tidy()) {
            Ok(_) => MemoryReply::Saved { statistics: self.index.statistics() },
            Err(error) => MemoryReply::Failed { message: error.to_string() },
        }
    }

    fn reply(&mut self, reply: &MemoryReply) -> Result<(), ReaderFailure> {
        let mut line = serde_json::to_vec(reply)?;
        line.push(b'\n');
        let written = self.output.write_all(&line).and_then(|()| self.output.flush());
        written.map_err(|error| ReaderFailure::Read("write a reply".to_owned(), error))
    }
}

#[cfg(test)]
mod tests {
    use sandyard_memory::messages::{FoundPassage, KnownSources, text_id};
    use sandyard_memory::{ContentDigest, RecallScope, SourceOrigin};

    use super::*;

    #[test]
    fn texts_that_were_added_are_found_with_their_places() {
        let home = tempfile::tempdir().unwrap();
        let texts = [(1, "the parser reads numbers"), (2, "connection refused by port 5432")];
        let mut input = Vec::new();
        for (number, text) in texts {
            let (id, bytes) = (text_id(3, number).unwrap(), text.len() as u64);
            let path = "shell".to_owned();
            let announced = TextAnnouncement { id, origin: SourceOrigin::Result, path, at_ms: 5, bytes };
            serde_json::to_writer(&mut input, &MemoryRequest::Add(announced)).unwrap();
            input.push(b'\n');
            input.extend(text.bytes());
        }
        let question =
            MemoryQuestion { text: "refused port".into(), count: 1, scope: RecallScope::default() };
        for request in [MemoryRequest::Find(question), MemoryRequest::Save] {
            serde_json::to_writer(&mut input, &request).unwrap();
            input.push(b'\n');
        }
        let (index, _) = MemoryIndex::open(home.path(), LexicalSettings::default(), None).unwrap();
        let mut talk = MemoryTalk { index, input: input.as_slice(), output: Vec::new() };
        let mut replies = Vec::new();
        while let Some(request) = talk.request().unwrap() {
            replies.extend(talk.serve(request).unwrap());
        }
        let [MemoryReply::Found { passages }, MemoryReply::Saved { .. }] = replies.as_slice() else {
            panic!("{replies:?}")
        };
        let FoundPassage { digest, places, .. } = &passages[0];
        assert_eq!(
            (*digest, places[0].source.id),
            (ContentDigest::of(texts[1].1.as_bytes()), text_id(3, 2).unwrap())
        );
        assert_eq!(talk.index.known_sources(), KnownSources { entries: 0, texts: 2 });
    }

    #[test]
    fn a_host_that_ends_in_the_middle_of_a_text_is_an_error() {
        let home = tempfile::tempdir().unwrap();
        let announced = TextAnnouncement {
            id: text_id(0, 1).unwrap(),
            origin: SourceOrigin::File,
            path: String::new(),
            at_ms: 0,
            bytes: 10,
        };
        let (index, _) = MemoryIndex::open(home.path(), LexicalSettings::default(), None).unwrap();
        let mut talk = MemoryTalk { index, input: b"short".as_slice(), output: Vec::new() };
        assert!(talk.add(&announced).is_err());
    }
}
