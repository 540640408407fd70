//! A job's output: immutable chunks, small ones in the store, larger ones in files, the middle dropped at a cap.
//!
//! `recorder` turns what the guest sends into chunks to commit; `reader` gives them back as text or bytes; `consolidate`
//! makes one file of them when the job is over.

mod consolidate;
mod reader;
mod recorder;

pub(crate) use consolidate::consolidate;
pub(crate) use reader::{chunk_text, log_stream, tail};
pub(crate) use recorder::{Flush, Recorder, Take};

/// The longest chunk. Bounds what one commit or one event of a client's stream can hold.
pub(crate) const CHUNK_BYTES: usize = 1024 * 1024;
/// What a status shows of each stream.
pub(crate) const TAIL_BYTES: u64 = 64 * 1024;
