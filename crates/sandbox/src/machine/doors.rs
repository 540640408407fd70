//! Doors: a view of a machine through which nothing changes any more once it is closed.
//!
//! While the workspace of a job is exported, a write could be acknowledged and missing in the export. So clients get a view
//! whose streams all fail at one moment, with requests that were sent and answers that were not read yet. What was acknowledged
//! before that moment is on the disk, and the export begins after it. Requests that only read go on.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use sandyard_pipe::PipeStream;
use sandyard_protocol::Request;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// The doors of a machine are closed: its job is finishing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the job is finishing, and its workspace is being saved")]
pub(super) struct DoorsClosed;

/// True for a request that changes nothing in the workspace and does not report that something has changed it. Every other
/// request stops at a closed door.
pub(super) fn only_reads(request: &Request) -> bool {
    matches!(
        request,
        Request::Ping
            | Request::Stat { .. }
            | Request::List { .. }
            | Request::Read { .. }
            | Request::Search { .. }
            | Request::Export { .. }
            | Request::WorkspaceChanges
            | Request::LastScreenshot
            | Request::RecordDesktop
            | Request::ListProcesses
            | Request::ListKernels
    )
}

/// A stream to the guest, behind a door or not.
#[derive(Debug)]
pub struct MachineStream {
    stream: PipeStream,
    door: Option<StreamDoor>,
}

/// Wakes the reader and the writer of a stream, which may be two tasks.
#[derive(Debug)]
struct StreamDoor {
    reader: Pin<Box<WaitForCancellationFutureOwned>>,
    writer: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl MachineStream {
    /// A stream that lasts as long as its link.
    pub(super) fn open(stream: PipeStream) -> Self {
        Self { stream, door: None }
    }

    /// A stream that fails once `closed` is cancelled.
    pub(super) fn behind(stream: PipeStream, closed: &CancellationToken) -> Self {
        let wait = || Box::pin(closed.clone().cancelled_owned());
        Self { stream, door: Some(StreamDoor { reader: wait(), writer: wait() }) }
    }

    /// Returns the stream without its door.
    pub(super) fn into_pipe(self) -> PipeStream {
        self.stream
    }

    fn check_writer(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        check(self.door.as_mut().map(|door| &mut door.writer), context)
    }
}

/// Fails if the door is closed; otherwise the task is woken when that happens.
fn check(
    closed: Option<&mut Pin<Box<WaitForCancellationFutureOwned>>>,
    context: &mut Context<'_>,
) -> io::Result<()> {
    match closed.map(|closed| closed.as_mut().poll(context)) {
        Some(Poll::Ready(())) => Err(io::Error::new(io::ErrorKind::ConnectionAborted, DoorsClosed)),
        Some(Poll::Pending) | None => Ok(()),
    }
}

/// True for an error of a stream whose door was closed.
pub(super) fn is_closed_door(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|source| source.is::<DoorsClosed>())
}

impl AsyncRead for MachineStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Before the read: an acknowledgement that has arrived and was not read yet must not pass any more.
        check(self.door.as_mut().map(|door| &mut door.reader), context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for MachineStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check_writer(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check_writer(context)?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check_writer(context)?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
