//! A job's output: immutable chunks, small ones in the store, larger ones as blobs; at a cap the middle is dropped.
//!
//! `recorder` turns bytes from the guest into chunks to commit; `reader` returns them as text or bytes; `consolidate`
//! writes them into one blob when the job has ended. `pace` limits the rate.

mod consolidate;
mod log_place;
mod pace;
mod reader;
mod recorder;

pub(crate) use consolidate::consolidate;
pub(crate) use pace::{OutputPace, SharedOutputPace};
pub(crate) use reader::{chunk_text, log_stream, tail};
pub(crate) use recorder::{Flush, OutputRecorder, Take};

/// The longest chunk. Bounds the memory of one commit and of one event in a client's stream.
pub(crate) const CHUNK_BYTES: usize = 1024 * 1024;
/// The end of each stream that a status shows.
pub(crate) const TAIL_BYTES: u64 = 64 * 1024;
