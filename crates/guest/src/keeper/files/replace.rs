//! Replacing a file of ours, and only ours: the worker's part, and keeper's way to it.
//!
//! A file is ours if it is still exactly what we left: same inode, same length, same time of change. The new file takes its
//! place by an exchange of names, after which the one that was taken out is looked at again: if somebody had changed it in
//! between, the names are exchanged back. So nothing that somebody wrote is ever lost, and no link is followed.

use std::io::Read;
use std::os::fd::AsFd as _;
use std::sync::Arc;

use rustix::fs::{AtFlags, RenameFlags, linkat, renameat_with, statat, unlinkat};
use rustix::io::Errno;
use sandyard_pipe::{Frame, FrameError};
use sandyard_protocol::limits::DATA_BYTES;
use sandyard_protocol::{GuestError, GuestErrorCode};
use serde::{Deserialize, Serialize};

use super::error::FileError;
use super::path::RelativePath;
use super::pool::FileWorkers;
use super::wire::Wire;
use super::workspace::Workspace;
use super::write::NewFile;
use crate::keeper::Keeper;
use crate::keeper::workers::{Worker, WorkerError};
use crate::limits::FILE_WORKER_STALL;

/// What makes a file the one it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::keeper) struct Identity {
    inode: u64,
    size: u64,
    seconds: i64,
    nanoseconds: i64,
}

/// What keeper asks of a worker; the host can't.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::keeper) struct Replace {
    /// The path.
    pub(in crate::keeper) replace: String,
    /// Bytes that follow.
    pub(in crate::keeper) size: u64,
    /// The file that may be replaced; without it none may be there.
    pub(in crate::keeper) expected: Option<Identity>,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::keeper) enum Replaced {
    /// It is there now, and this is what it is.
    Written(Identity),
    /// Something else is there, and stays.
    Taken,
}

/// What the worker answers.
type Answer = Result<Replaced, GuestError>;

/// It could not be done.
#[derive(Debug, thiserror::Error)]
pub(in crate::keeper) enum ReplaceError {
    /// No worker could be had.
    #[error("no file worker could be had")]
    Worker(#[from] WorkerError),
    /// The worker failed.
    #[error("the file worker failed")]
    Frames(#[from] FrameError),
    /// The worker refused.
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
        keeper: &Arc<Keeper>,
        request: &Replace,
        content: &mut (impl Read + Send),
    ) -> Result<Replaced, ReplaceError> {
        let Some(_turn) = self.turn().await else { return Err(ReplaceError::Stalled) };
        let mut worker = self.take(keeper).await?;
        let asking = ask(&mut worker, request, content);
        let answer =
            tokio::time::timeout(FILE_WORKER_STALL, asking).await.map_err(|_| ReplaceError::Stalled)??;
        self.put_back(keeper, worker);
        answer.map_err(ReplaceError::Refused)
    }
}

async fn ask(
    worker: &mut Worker,
    request: &Replace,
    content: &mut (impl Read + Send),
) -> Result<Answer, ReplaceError> {
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
    let answer: Answer = worker.receiver.receive_message().await?;
    match worker.receiver.receive().await? {
        Some(Frame::Data(data)) if data.is_empty() => Ok(answer),
        _ => Err(ReplaceError::Frames(FrameError::Ended)),
    }
}

/// The worker's part.
pub(super) fn replace(
    workspace: &Workspace,
    wire: &mut Wire<'_>,
    request: &Replace,
) -> Result<(), FileError> {
    let path = RelativePath::parse(&request.replace)?;
    let (directory, name) = workspace.parent(&path)?;
    let mut file = NewFile::create(directory)?;
    file.receive(wire, request.size)?;
    let (directory, hidden) = file.name_hidden()?;
    let placed = place(directory.as_fd(), &hidden, name, request.expected);
    // After an exchange the old file has this name, after a refusal the new one.
    let _ = unlinkat(&directory, hidden.as_str(), AtFlags::empty());
    let answer: Answer = Ok(placed?);
    wire.send_message(&answer)
}

fn place(
    directory: std::os::fd::BorrowedFd<'_>,
    hidden: &str,
    name: &str,
    expected: Option<Identity>,
) -> Result<Replaced, FileError> {
    let kernel = |what| FileError::kernel(what);
    match (identity(directory, name), expected) {
        (Err(Errno::NOENT), _) => match linkat(directory, hidden, directory, name, AtFlags::empty()) {
            Ok(()) => {}
            Err(Errno::EXIST) => return Ok(Replaced::Taken),
            Err(errno) => return Err(kernel("name the file")(errno)),
        },
        (Ok(there), Some(expected)) if there == expected => {
            let exchange = || renameat_with(directory, hidden, directory, name, RenameFlags::EXCHANGE);
            exchange().map_err(kernel("put the file into place"))?;
            if identity(directory, hidden) != Ok(expected) {
                exchange().map_err(kernel("put the file back"))?;
                return Ok(Replaced::Taken);
            }
        }
        (Ok(_), _) => return Ok(Replaced::Taken),
        (Err(errno), _) => return Err(kernel("look at the path")(errno)),
    }
    identity(directory, name).map(Replaced::Written).map_err(kernel("look at the file"))
}

/// Of a name, not following it.
fn identity(directory: std::os::fd::BorrowedFd<'_>, name: &str) -> Result<Identity, Errno> {
    let stat = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(Identity {
        inode: stat.st_ino,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        seconds: stat.st_mtime,
        nanoseconds: i64::try_from(stat.st_mtime_nsec).unwrap_or(0),
    })
}

/// How the worker tells that it could not.
pub(super) fn refuse(wire: &mut Wire<'_>, error: &FileError) -> Result<(), FileError> {
    let code = match error {
        FileError::Pipe(_) => GuestErrorCode::Internal,
        other => other.to_guest().code,
    };
    let answer: Answer = Err(GuestError::new(code, error.to_string()));
    wire.send_message(&answer)
}
