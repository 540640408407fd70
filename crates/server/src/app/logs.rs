//! Logs: a whole stream of output as bytes.

use std::pin::Pin;

use bytes::Bytes;
use futures_util::Stream;
use sandyard_protocol::OutputStream;

use super::{AppError, Yard};
use crate::job::JobId;
use crate::output;

/// A job's output as bytes.
pub struct LogStream {
    /// Bytes that will come, if the job has ended; a running job's log ends where it is now.
    pub length: Option<u64>,
    /// The bytes: head, marker line, tail.
    pub bytes: Pin<Box<dyn Stream<Item = Result<Bytes, std::io::Error>> + Send>>,
}

impl Yard {
    /// The output so far.
    pub async fn logs(&self, id: &JobId, stream: OutputStream) -> Result<LogStream, AppError> {
        let row = self.row(id).await?;
        let store = std::sync::Arc::clone(&self.context.store);
        let (length, bytes) = output::log_stream(store, self.context.layout.clone(), &row, stream);
        Ok(LogStream { length, bytes })
    }
}
