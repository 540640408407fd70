//! Memory beyond the model's window: texts are cut into chunks, indexed, found again, and cited.
//!
//! [`chunk`] cuts a text at its natural borders, [`index`] keeps which chunk has which words and meaning, [`recall()`] answers a question
//! with passages whose citations were checked, [`find`] with the places alone, for whoever keeps the texts. The texts themselves are kept
//! elsewhere, in a journal or a folder, behind [`SourceReader`](sandyard_memory::SourceReader): the index is a cache that can be deleted at
//! any time. What needs neither grammar nor index is in the crate `memory`.
//!
//! The crate reads neither clock nor environment, and no files but those of its index folder and of a folder that it is given. All text comes
//! from sandboxes: every input is accepted, bounded and parsed without panic.

mod codec;
mod embed;
mod folder;

pub mod chunk;
pub mod index;
pub mod recall;

pub use embed::{EmbeddingModel, ModelFlaw};
pub use folder::{FolderReader, sync};
pub use recall::{find, recall};
