//! Replaces a file of the workspace that keeper itself wrote: keeper's part of `replace`.

use std::io::Read;

use sandyard_pipe::{Frame, FrameError};
use sandyard_protocol::GuestError;
use sandyard_protocol::limits::DATA_BYTES;

use super::pool::FileWorkers;
use super::replace::{Replace, ReplaceAnswer, Replaced};
use crate::keeper::workers::{Worker, WorkerError};
use crate::limits::FILE_WORKER_STALL;

/// A file that could not be replaced.
#[derive(Debug, thiserror::Error)]
pub(in crate::keeper) enum ReplaceError {
    /// No worker could be started.
    #[error("no file worker could be started")]
    Worker(#[from] WorkerError),
    /// The worker's pipe failed, or its answer was malformed.
    #[error("the file worker failed")]
    Frames(#[from] FrameError),
    /// The worker answered that it could not replace the file.
    #[error("the file worker refused")]
    Refused(#[source] GuestError),
    /// The content could not be read.
    #[error("read the content")]
    Content(#[source] std::io::Error),
    /// The worker does not answer.
    #[error("the file worker does not answer")]
    Stalled,
}

impl FileWorkers {
    /// Replaces a file of the workspace.
    pub(in crate::keeper) async fn replace(
        &self,
        request: &Replace,
        content: &mut (impl Read + Send),
    ) -> Result<Replaced, ReplaceError> {
        let Some(_turn) = self.turn().await else { return Err(ReplaceError::Stalled) };
        let mut worker = self.take().await?;
        let asking = ask(&mut worker, request, content);
        let answer =
            tokio::time::timeout(FILE_WORKER_STALL, asking).await.map_err(|_| ReplaceError::Stalled)??;
        self.put_back(worker);
        answer.map_err(ReplaceError::Refused)
    }
}

async fn ask(
    worker: &mut Worker,
    request: &Replace,
    content: &mut (impl Read + Send),
) -> Result<ReplaceAnswer, ReplaceError> {
    worker.sender.send_message(request).await?;
    let mut buffer = vec![0; DATA_BYTES];
    let mut left = request.size;
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(DATA_BYTES).min(DATA_BYTES);
        match content.read(&mut buffer[..most]).map_err(ReplaceError::Content)? {
            0 => break,
            count => {
                worker.sender.send_data(&buffer[..count]).await?;
                left -= count as u64;
            }
        }
    }
    worker.sender.send_data(&[]).await?;
    let answer: ReplaceAnswer = worker.receiver.receive_message().await?;
    match worker.receiver.receive().await? {
        Some(Frame::Data(data)) if data.is_empty() => Ok(answer),
        _ => Err(ReplaceError::Frames(FrameError::Ended)),
    }
}
