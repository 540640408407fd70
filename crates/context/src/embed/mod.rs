//! Static embeddings: each piece of a word has a vector, a text is their weighted sum. No network, no floating-point model to run.
//!
//! `model` reads the weights, `pieces` cuts words into known pieces, `vectors` compares. The weights are signed bytes, and they are used in
//! place: whoever includes them in a program has them mapped by the kernel, page by page, when they are first needed.

mod model;
mod pieces;
mod vectors;

pub use model::{EmbeddingModel, ModelFlaw};

pub(crate) use pieces::PieceCounts;
pub(crate) use vectors::WideVector;
