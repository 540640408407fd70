//! The index: which chunk has which terms, and its vector. A cache of what is kept elsewhere.
//!
//! `analysis` turns a chunk into terms with weights and a vector; `fresh` collects analysed sources in memory, searchable at once;
//! `segment` is the same in a file, sealed with checksums and never changed; `merge` makes one segment of several; `store` is a folder of
//! segments with one fresh segment on top. Nothing here is the truth: a damaged file is dropped, and its sources are added again.

mod analysis;
mod dictionary;
mod document;
mod fresh;
mod merge;
mod postings;
mod seal;
mod segment;
mod store;

pub use analysis::LexicalSettings;
pub use store::{IndexError, IndexOpening, MemoryIndex, SourceText};

pub(crate) use document::{DocumentKey, DocumentPlace, DocumentRow};
pub(crate) use segment::SearchableSegment;
