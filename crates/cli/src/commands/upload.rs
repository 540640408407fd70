//! Bodies that go to the server: files and standard input, with a bar on a terminal.

use std::io::{self, Seek};

use futures_util::TryStreamExt;
use reqwest::Body;
use tokio::fs::File;
use tokio::io::AsyncReadExt;
use tokio_util::io::ReaderStream;

use crate::progress::ProgressLine;

/// Returns the first `length` bytes of a file as a body. A file that grows meanwhile is sent with its size at the start, which
/// a header announces.
pub(super) fn body_of(file: File, length: u64, progress: &ProgressLine) -> Body {
    let bar = progress.bar();
    Body::wrap_stream(ReaderStream::new(file.take(length)).inspect_ok(move |bytes| {
        if let Some(bar) = &bar {
            bar.inc(bytes.len() as u64);
        }
    }))
}

/// Reads standard input to its end, into a file without a name. The server wants to know the length of anything large, and a
/// pipe does not tell it.
pub(super) fn spool_stdin() -> io::Result<(std::fs::File, u64)> {
    let mut file = tempfile::tempfile()?;
    let length = io::copy(&mut io::stdin().lock(), &mut file)?;
    file.rewind()?;
    Ok((file, length))
}
