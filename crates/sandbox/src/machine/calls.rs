//! The way a call is made: a stream of its own, the request, one reply within a deadline.

use std::time::Duration;

use bytes::Bytes;
use sandyard_pipe::{Frame, FrameError, FrameLimits, Framed, Link, LinkClosed};
use sandyard_protocol::{BeginJob, EndReason, GuestError, JobProgress, Reply, Request, limits};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use super::doors::{MachineStream, is_closed_door, only_reads};

/// Limits of frames on which host and guest agree.
pub const FRAME_LIMITS: FrameLimits = FrameLimits {
    message_bytes: limits::MESSAGE_BYTES,
    sent_message_bytes: limits::REQUEST_BYTES,
    data_bytes: limits::DATA_BYTES,
};

/// Longest wait for the first reply. A recursive removal of a large tree takes seconds.
const REPLY_DEADLINE: Duration = Duration::from_secs(60);

/// A handle of a sandbox that has linked; clones share the link.
#[derive(Debug, Clone)]
pub struct Machine {
    pub(super) link: Link,
    /// Cancelled when clients may change nothing any more; `None` for the owner of the job.
    closed: Option<CancellationToken>,
    /// Time that the machine may have taken to boot; programs inside get as much more to start.
    pub(super) boot_time: Duration,
}

/// A call did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// The guest rejected the call; the text is the guest's.
    #[error(transparent)]
    Guest(#[from] GuestError),
    /// The link or the stream has ended.
    #[error("the sandbox can not be reached")]
    Lost,
    /// The job is finishing: the call may have happened or not, and it may be missing in the result.
    #[error("the job is finishing, and its workspace is being saved")]
    Finishing,
    /// The guest did not answer in time.
    #[error("the sandbox did not answer within {} s", REPLY_DEADLINE.as_secs())]
    Deadline,
    /// The guest broke the protocol.
    #[error("the sandbox gave a malformed answer: {0}")]
    Malformed(String),
}

impl From<LinkClosed> for MachineError {
    fn from(_: LinkClosed) -> Self {
        Self::Lost
    }
}

impl From<FrameError> for MachineError {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::Io(error) if is_closed_door(&error) => Self::Finishing,
            FrameError::Io(_) | FrameError::Ended => Self::Lost,
            FrameError::TooLong(_) | FrameError::Malformed(_) => Self::Malformed(error.to_string()),
        }
    }
}

pub(super) type GuestStream = Framed<MachineStream>;

impl Machine {
    /// Speaks over an authenticated link.
    pub fn over(link: Link) -> Self {
        Self { link, closed: None, boot_time: Duration::ZERO }
    }

    /// Gives the programs of a machine that boots slowly more time.
    #[must_use]
    pub fn with_boot_time(self, boot_time: Duration) -> Self {
        Self { boot_time, ..self }
    }

    /// Returns a view for clients. Once `closed` is cancelled, it changes nothing and acknowledges nothing any more: calls that
    /// are under way and later ones fail with [`MachineError::Finishing`]. Calls that only read go on.
    #[must_use]
    pub fn behind_doors(&self, closed: CancellationToken) -> Self {
        Self { closed: Some(closed), ..self.clone() }
    }

    /// True if this view changes nothing any more, because the job is finishing.
    pub fn is_finishing(&self) -> bool {
        self.closed.as_ref().is_some_and(CancellationToken::is_cancelled)
    }

    /// Returns the link itself, to wait for its end or to close it.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Checks that keeper answers.
    pub async fn ping(&self) -> Result<(), MachineError> {
        self.done(&Request::Ping).await
    }

    /// Begins the job. Changes nothing if it has begun.
    pub async fn begin_job(&self, job: BeginJob) -> Result<JobProgress, MachineError> {
        self.job(&Request::BeginJob(job)).await
    }

    /// Ends the job. Changes nothing if it has ended.
    pub async fn end_job(&self, reason: EndReason, grace: Duration) -> Result<JobProgress, MachineError> {
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        self.job(&Request::EndJob { reason, grace_ms }).await
    }

    /// Stops the job's clocks. Changes nothing if they are stopped.
    pub async fn pause_job(&self) -> Result<JobProgress, MachineError> {
        self.job(&Request::PauseJob).await
    }

    /// Starts the job's clocks again with `left` remaining. Changes nothing if they run.
    pub async fn resume_job(&self, left: Duration) -> Result<JobProgress, MachineError> {
        let timeout_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        self.job(&Request::ResumeJob { timeout_ms }).await
    }

    pub(super) async fn job(&self, request: &Request) -> Result<JobProgress, MachineError> {
        match self.call(request).await?.1 {
            Reply::Job(progress) => Ok(progress),
            other => Err(unexpected(&other)),
        }
    }

    pub(super) async fn done(&self, request: &Request) -> Result<(), MachineError> {
        match self.call(request).await?.1 {
            Reply::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Opens a stream, sends the request and waits for the reply. A refusal is an error.
    pub(super) async fn call(&self, request: &Request) -> Result<(GuestStream, Reply), MachineError> {
        let mut stream = self.request(request).await?;
        let reply = reply(&mut stream).await?;
        Ok((stream, reply))
    }

    pub(super) async fn request(&self, request: &Request) -> Result<GuestStream, MachineError> {
        let closed = self.closed.as_ref().filter(|_| !only_reads(request));
        if closed.is_some_and(CancellationToken::is_cancelled) {
            return Err(MachineError::Finishing);
        }
        let stream = self.link.open().await?;
        let stream = match closed {
            Some(closed) => MachineStream::behind(stream, closed),
            None => MachineStream::open(stream),
        };
        let mut stream = Framed::new(stream, FRAME_LIMITS);
        stream.send_message(request).await?;
        Ok(stream)
    }
}

/// Returns the next of exactly `left` announced bytes, or `None` after the last.
pub(super) async fn next_part<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut Framed<S>,
    left: &mut u64,
    what: &'static str,
) -> Result<Option<Bytes>, MachineError> {
    if *left == 0 {
        return Ok(None);
    }
    match stream.receive().await? {
        // The guest is hostile: an empty frame could keep the caller busy without end, and a longer one would
        // exceed the announced size.
        Some(Frame::Data(bytes)) if !bytes.is_empty() && bytes.len() as u64 <= *left => {
            *left -= bytes.len() as u64;
            Ok(Some(bytes))
        }
        Some(_) => Err(MachineError::Malformed(what.into())),
        None => Err(MachineError::Lost),
    }
}

pub(super) async fn reply(stream: &mut GuestStream) -> Result<Reply, MachineError> {
    reply_within(stream, REPLY_DEADLINE).await
}

pub(super) async fn reply_within(
    stream: &mut GuestStream,
    deadline: Duration,
) -> Result<Reply, MachineError> {
    match tokio::time::timeout(deadline, stream.receive_message()).await {
        Err(_) => Err(MachineError::Deadline),
        // Rebuilt, because `new` bounds the guest's text.
        Ok(Ok(Reply::Failed(error))) => Err(GuestError::new(error.code, error.message).into()),
        Ok(reply) => Ok(reply?),
    }
}

pub(super) fn unexpected(reply: &Reply) -> MachineError {
    let name = match reply {
        Reply::Done => "done",
        Reply::Job(_) => "job",
        Reply::Process(_) => "process",
        Reply::Processes(_) => "processes",
        Reply::Stat(_) => "stat",
        Reply::Entries { .. } => "entries",
        Reply::Content { .. } => "content",
        Reply::Hits { .. } => "hits",
        Reply::Changes(_) => "changes",
        Reply::Picture { .. } => "picture",
        Reply::Service { .. } => "service",
        Reply::Kernel(_) => "kernel",
        Reply::Kernels(_) => "kernels",
        Reply::Execution(_) => "execution",
        Reply::Failed(_) => "failed",
    };
    MachineError::Malformed(format!("unexpected reply `{name}`"))
}
