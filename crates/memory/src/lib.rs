//! What loop, server and reader share of a job's memory.
//!
//! [`SourceRecord`] names a text that is kept, [`entry_texts`] are the texts of a journal entry, [`messages`] connect the host with
//! the reader that holds the index, [`summary`] and [`pack()`](pack::pack) choose what a model reads within its budget. The index
//! itself, with its grammars and its embedding, is in the crate `context`, which only the reader links.
//!
//! Pure: no I/O, no clock, no environment.

mod entries;
mod scope;
mod source;
mod tokens;

pub mod messages;
pub mod pack;
pub mod summary;
pub mod terms;

pub use entries::{EntryText, entry_texts, plan_text};
pub use scope::RecallScope;
pub use source::{
    ContentDigest, MalformedDigest, PassagePlace, SourceId, SourceOrigin, SourceReader, SourceRecord,
};
pub use tokens::estimate_tokens;
