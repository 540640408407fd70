//! A reader that holds the index of one job, fed with the job's sources.

use std::io;
use std::path::Path;
use std::time::Duration;

use sandyard_memory::messages::{
    FoundPassage, KnownSources, MAX_MESSAGE_BYTES, MemoryQuestion, MemoryReply, MemoryRequest,
};
use sandyard_sandbox::reader::ReaderSession;
use serde::Serialize;
use tokio::time::timeout;

use super::sources::JobSources;
use crate::job::JobRow;
use crate::store::StoreError;

/// Time for one message. Opening an index of ten million tokens takes a tenth of a second; the machine may be busy.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);
/// Time to add one page of sources.
const ADD_TIMEOUT: Duration = Duration::from_secs(60);
/// The index is written to its folder when this much text was added since.
const SAVED_BYTES: u64 = 4 * 1024 * 1024;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecallError {
    #[error("the folder of the index")]
    Folder(#[source] io::Error),
    #[error("talk to the reader")]
    Reader(#[source] io::Error),
    #[error("the reader took too long")]
    Late,
    #[error("the reader failed: {0}")]
    Failed(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A reader with the index of one job.
pub(super) struct MemorySession {
    reader: ReaderSession,
    known: KnownSources,
    unsaved_bytes: u64,
    /// Parts of the index that were damaged when it was opened.
    pub(super) rebuilt: usize,
}

impl MemorySession {
    /// Starts a reader on the folder of an index.
    pub(super) async fn start(program: &'static [u8], folder: &Path) -> Result<Self, RecallError> {
        let reader = ReaderSession::start(program, &["job-memory".as_ref(), folder.as_os_str()]);
        let mut reader = reader.map_err(RecallError::Reader)?;
        match reply(&mut reader).await? {
            MemoryReply::Opened { known, dropped } => {
                Ok(Self { reader, known, unsaved_bytes: 0, rebuilt: dropped.len() })
            }
            other => Err(unexpected(&other)),
        }
    }

    /// Adds what the job has stored since.
    pub(super) async fn catch_up(&mut self, sources: &JobSources, row: &JobRow) -> Result<(), RecallError> {
        while !JobSources::is_everything(row, &self.known) {
            let before = self.known;
            let page = sources.next(row, &mut self.known).await?;
            if before == self.known {
                break;
            }
            for (text, bytes) in page {
                self.unsaved_bytes += text.bytes;
                let added = async {
                    self.reader.send(&line(&MemoryRequest::Add(text))?).await?;
                    self.reader.send(&bytes).await
                };
                timeout(ADD_TIMEOUT, added)
                    .await
                    .map_err(|_| RecallError::Late)?
                    .map_err(RecallError::Reader)?;
            }
        }
        Ok(())
    }

    pub(super) async fn find(&mut self, question: MemoryQuestion) -> Result<Vec<FoundPassage>, RecallError> {
        match self.ask(&MemoryRequest::Find(question)).await? {
            MemoryReply::Found { passages } => Ok(passages),
            other => Err(unexpected(&other)),
        }
    }

    /// Writes the index to its folder if much was added. An index that can't be written is made again.
    pub(super) async fn save(&mut self) -> Result<(), RecallError> {
        if self.unsaved_bytes >= SAVED_BYTES {
            self.unsaved_bytes = 0;
            if let MemoryReply::Failed { message } = self.ask(&MemoryRequest::Save).await? {
                tracing::warn!(message, "an index could not be written");
            }
        }
        Ok(())
    }

    async fn ask(&mut self, request: &MemoryRequest) -> Result<MemoryReply, RecallError> {
        let asked = line(request).map_err(RecallError::Reader)?;
        self.reader.send(&asked).await.map_err(RecallError::Reader)?;
        reply(&mut self.reader).await
    }
}

fn line(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

async fn reply(reader: &mut ReaderSession) -> Result<MemoryReply, RecallError> {
    let received = timeout(REPLY_TIMEOUT, reader.receive_line(MAX_MESSAGE_BYTES)).await;
    let line = received.map_err(|_| RecallError::Late)?.map_err(RecallError::Reader)?;
    serde_json::from_slice(&line).map_err(|error| RecallError::Reader(error.into()))
}

fn unexpected(reply: &MemoryReply) -> RecallError {
    match reply {
        MemoryReply::Failed { message } => RecallError::Failed(message.clone()),
        _ => RecallError::Failed("an unexpected reply".to_owned()),
    }
}
