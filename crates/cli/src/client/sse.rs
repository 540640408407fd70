//! Reads server-sent events from a response.

use std::pin::Pin;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use sandyard_api::{SseFrame, SseParser};

use super::ClientError;

/// Longest event that the client accepts. Output comes in chunks of at most 1 MiB, which JSON escapes can make six times longer.
const MAX_FRAME_BYTES: usize = 16 * 1024 * 1024;

/// The events of one response.
pub(crate) struct SseReader {
    bytes: Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>,
    parser: SseParser,
}

impl SseReader {
    pub(super) fn new(response: reqwest::Response) -> Self {
        Self { bytes: Box::pin(response.bytes_stream()), parser: SseParser::new(MAX_FRAME_BYTES) }
    }

    /// Returns the next event; `None` when the server has closed the stream.
    pub(crate) async fn next(&mut self) -> Result<Option<SseFrame>, ClientError> {
        loop {
            if let Some(frame) = self.parser.take() {
                return Ok(Some(frame));
            }
            match self.bytes.next().await {
                Some(Ok(bytes)) => {
                    self.parser.feed(&bytes).map_err(|_| ClientError::Stream("an event is too long"))?;
                }
                Some(Err(error)) => return Err(ClientError::Lost(error)),
                None => return Ok(None),
            }
        }
    }
}
