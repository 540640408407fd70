//! The body of a download on its way into a file.

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use futures_util::StreamExt;
use reqwest::Response;

use crate::client::ClientError;
use crate::errors::CommandError;
use crate::progress::ProgressLine;

/// Streams a body to a writer and shows progress.
pub(super) async fn stream_to(
    response: Response,
    file: &mut impl Write,
    path: &Path,
    what: &str,
) -> Result<u64, CommandError> {
    let progress = ProgressLine::transfer(what, io::stderr().is_terminal(), response.content_length());
    let mut body = response.bytes_stream();
    let mut length = 0;
    while let Some(bytes) = body.next().await {
        let bytes = bytes.map_err(ClientError::Lost)?;
        file.write_all(&bytes).map_err(CommandError::file("write", path))?;
        progress.advance(bytes.len());
        length += bytes.len() as u64;
    }
    progress.finish();
    Ok(length)
}
