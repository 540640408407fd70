//! The fresh segment: sources that were added since the last one was sealed. They are found as soon as they are added.

use crate::embed::EmbeddingModel;
use crate::index::analysis::{ChunkAnalyser, ChunkFields, LexicalSettings};
use crate::index::dictionary::DictionaryWriter;
use crate::index::document::{DocumentKey, DocumentRow, RepeatedDocument};
use crate::index::postings::{Postings, PostingsWriter};
use crate::index::seal::{SegmentContents, seal};
use crate::index::segment::{SearchableSegment, SegmentHead, SegmentSource};

/// A segment in memory.
#[derive(Debug)]
pub(crate) struct FreshSegment {
    analyser: ChunkAnalyser,
    /// By term number.
    postings: Vec<PostingsWriter>,
    documents: Vec<DocumentRow>,
    vectors: Vec<u8>,
    sources: Vec<SegmentSource>,
    repeats: Vec<RepeatedDocument>,
    text_bytes: u64,
}

impl FreshSegment {
    pub(crate) fn new(settings: LexicalSettings) -> Self {
        Self {
            analyser: ChunkAnalyser::new(settings),
            postings: Vec::new(),
            documents: Vec::new(),
            vectors: Vec::new(),
            sources: Vec::new(),
            repeats: Vec::new(),
            text_bytes: 0,
        }
    }

    /// Number of the next source that is added.
    pub(crate) fn next_source(&self) -> u32 {
        self.sources.len() as u32
    }

    /// Bytes of text that its documents were made of.
    pub(crate) fn text_bytes(&self) -> u64 {
        self.text_bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Adds a document of the source that `close_source` will add.
    pub(crate) fn add_document(
        &mut self,
        row: DocumentRow,
        fields: ChunkFields<'_>,
        model: Option<&EmbeddingModel>,
    ) {
        let number = self.documents.len() as u32;
        let postings = &mut self.postings;
        let vector = self.analyser.analyse(fields, model, |term, impact| {
            let term = term as usize;
            if term >= postings.len() {
                postings.resize(term + 1, PostingsWriter::default());
            }
            postings[term].push(number, impact);
        });
        self.vectors.extend(vector.into_iter().flatten());
        self.text_bytes += u64::from(row.bytes);
        self.documents.push(row);
    }

    pub(crate) fn add_repeat(&mut self, repeat: RepeatedDocument) {
        self.repeats.push(repeat);
    }

    /// Adds a source, with the documents since the source before.
    pub(crate) fn close_source(&mut self, record: sandyard_memory::SourceRecord) {
        let first = self.sources.last().map_or(0, |last| last.documents.end);
        self.sources.push(SegmentSource { record, documents: first..self.documents.len() as u32 });
    }

    /// Returns the bytes of the segment's file and leaves the segment empty. `head` has the counts of nothing yet.
    pub(crate) fn seal(&self, fingerprint: u64, vector_bytes: u32) -> Vec<u8> {
        let mut terms: Vec<(&str, u32)> = self.analyser.terms().collect();
        terms.sort_unstable();
        let mut dictionary = DictionaryWriter::default();
        for (term, number) in terms {
            if let Some(postings) = self.postings.get(number as usize) {
                dictionary.push(term, postings.view());
            }
        }
        seal(SegmentContents {
            head: SegmentHead {
                fingerprint,
                vector_bytes,
                documents: self.documents.len() as u32,
                text_bytes: self.text_bytes,
                replaces: Vec::new(),
            },
            sources: self.sources.clone(),
            documents: self.documents.clone(),
            repeats: self.repeats.clone(),
            dictionary,
            vectors: self.vectors.clone(),
        })
    }
}

impl SearchableSegment for FreshSegment {
    fn documents(&self) -> u32 {
        self.documents.len() as u32
    }

    fn postings(&self, term: &str) -> Option<Postings<'_>> {
        let number = self.analyser.term_number(term)?;
        self.postings.get(number as usize).map(PostingsWriter::view)
    }

    fn vectors(&self) -> &[u8] {
        &self.vectors
    }

    fn document(&self, number: u32) -> Option<DocumentRow> {
        self.documents.get(number as usize).cloned()
    }

    fn sources(&self) -> &[SegmentSource] {
        &self.sources
    }

    fn repeats(&self) -> &[RepeatedDocument] {
        &self.repeats
    }

    fn repeats_of(&self, key: &DocumentKey) -> Vec<RepeatedDocument> {
        self.repeats.iter().filter(|repeat| repeat.key == *key).copied().collect()
    }
}
