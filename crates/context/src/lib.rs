//! Memory beyond the model's window: texts are cut into chunks, indexed, found again, and cited.
//!
//! [`chunk`] cuts a text at its natural borders, [`index`] keeps which chunk has which words and meaning, [`recall()`] answers a question with
//! passages whose citations were checked; [`summary`] and [`pack()`](pack::pack) choose what a model reads within its budget. The texts themselves are kept elsewhere, in a journal or a folder, behind [`SourceReader`]: the
//! index is a cache that can be deleted at any time.
//!
//! The crate reads neither clock nor environment, and no files but those of its index folder and of a folder that it is given. All text comes
//! from sandboxes: every input is accepted, bounded and parsed without panic.

mod codec;
mod embed;
mod folder;
mod source;
mod terms;
mod tokens;

pub mod chunk;
pub mod index;
pub mod pack;
pub mod recall;
pub mod summary;

pub use embed::{EmbeddingModel, ModelFlaw};
pub use folder::{FolderReader, FolderSync, sync};
pub use recall::recall;
pub use source::{ContentDigest, SourceId, SourceOrigin, SourceReader, SourceRecord};
pub use terms::{stem, terms};
pub use tokens::estimate_tokens;
