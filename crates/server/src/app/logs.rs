//! Logs: a whole stream of output as bytes.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::Stream;
use sandyard_protocol::OutputStream;

use super::{AppError, JobAccess, Yard};
use crate::auth::AccessScope;
use crate::output;

/// A job's output as bytes.
pub struct LogStream {
    /// Length in bytes, if the job has ended. The log of a running job ends at its last commit.
    pub length: Option<u64>,
    /// The bytes: head, marker line, tail.
    pub bytes: Pin<Box<dyn Stream<Item = Result<Bytes, std::io::Error>> + Send>>,
}

impl Yard {
    /// Returns the output so far.
    pub async fn logs(&self, job: &JobAccess, stream: OutputStream) -> Result<LogStream, AppError> {
        job.require(AccessScope::ReadJobs)?;
        let row = self.row(job.id()).await?;
        let (store, blobs) = (Arc::clone(&self.context.store), Arc::clone(&self.context.blobs));
        let log = output::log_stream(store, blobs, &row, stream);
        Ok(LogStream { length: log.length, bytes: log.bytes })
    }
}
