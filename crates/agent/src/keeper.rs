//! The way to keeper: a connection for each request, over a socket in the machine.
//!
//! Keeper may be restarted at any moment. Connecting waits for it; a connection that is lost in the middle is the caller's to
//! judge, because only it knows whether asking again would do something twice.

use std::path::PathBuf;
use std::time::Duration;

use sandyard_pipe::{FrameError, FrameLimits, Framed};
use sandyard_protocol::limits::{
    AGENT_REQUEST_BYTES, DATA_BYTES, DESK_MESSAGE_BYTES, MODEL_CALL_BYTES, MODEL_EVENT_BYTES, REQUEST_BYTES,
};
use sandyard_protocol::{AgentRequest, GuestError, Reply, Request};
use tokio::net::UnixStream;

/// Between two attempts to connect: keeper's restart takes some ten milliseconds.
const RETRY: Duration = Duration::from_millis(50);
/// How long a tool waits for keeper to be there. A keeper that stays away longer takes its machine with it.
const PATIENCE: Duration = Duration::from_secs(60);

const TOOL_LIMITS: FrameLimits = FrameLimits {
    message_bytes: REQUEST_BYTES,
    sent_message_bytes: AGENT_REQUEST_BYTES,
    data_bytes: DATA_BYTES,
};
const DESK_LIMITS: FrameLimits = FrameLimits {
    message_bytes: DESK_MESSAGE_BYTES,
    sent_message_bytes: DESK_MESSAGE_BYTES,
    data_bytes: DATA_BYTES,
};
const MODEL_LIMITS: FrameLimits = FrameLimits {
    message_bytes: MODEL_EVENT_BYTES,
    sent_message_bytes: MODEL_CALL_BYTES,
    data_bytes: DATA_BYTES,
};

/// A connection.
pub(crate) type Stream = Framed<UnixStream>;

/// Where keeper listens.
#[derive(Debug, Clone)]
pub(crate) struct Keeper {
    socket: PathBuf,
}

/// A tool request that was not served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolError {
    /// Keeper says why; nothing was done.
    #[error("{0}")]
    Refused(GuestError),
    /// Keeper could not be reached, so nothing was done.
    #[error("the machine does not answer")]
    Unreachable,
    /// The connection was lost after the request was sent: it may have been served.
    #[error("the connection to the machine was lost in the middle")]
    Lost,
    /// The request is too long to be sent.
    #[error("too long for one call")]
    TooLong,
    /// Keeper said what it should not.
    #[error("the machine gave an answer that does not fit")]
    Unexpected,
}

impl From<FrameError> for ToolError {
    fn from(_: FrameError) -> Self {
        Self::Lost
    }
}

impl Keeper {
    /// A keeper by its socket.
    pub(crate) fn at(socket: PathBuf) -> Self {
        Self { socket }
    }

    /// Asks for something of the machine. Returns keeper's answer, and the connection for what follows it.
    pub(crate) async fn ask(&self, request: Request) -> Result<(Reply, Stream), ToolError> {
        let mut stream = self.send(request).await?;
        match stream.receive_message().await? {
            Reply::Failed(error) => Err(ToolError::Refused(error)),
            reply => Ok((reply, stream)),
        }
    }

    /// Sends a request whose content follows before keeper answers.
    pub(crate) async fn send(&self, request: Request) -> Result<Stream, ToolError> {
        let connect = tokio::time::timeout(PATIENCE, self.connect(TOOL_LIMITS));
        let mut stream = connect.await.map_err(|_| ToolError::Unreachable)?;
        match stream.send_message(&AgentRequest::Tool(request)).await {
            Err(FrameError::TooLong(_)) => Err(ToolError::TooLong),
            sent => Ok(sent.map(|()| stream)?),
        }
    }

    /// A connection to the desk on the host. Waits for as long as it takes.
    pub(crate) async fn desk(&self) -> Result<Stream, FrameError> {
        self.begin(&AgentRequest::Desk, DESK_LIMITS).await
    }

    /// A connection for one call of a model. Waits for as long as it takes.
    pub(crate) async fn model(&self) -> Result<Stream, FrameError> {
        self.begin(&AgentRequest::Model, MODEL_LIMITS).await
    }

    async fn begin(&self, request: &AgentRequest, limits: FrameLimits) -> Result<Stream, FrameError> {
        let mut stream = self.connect(limits).await;
        stream.send_message(request).await?;
        Ok(stream)
    }

    async fn connect(&self, limits: FrameLimits) -> Stream {
        loop {
            match UnixStream::connect(&self.socket).await {
                Ok(stream) => return Framed::new(stream, limits),
                Err(_) => tokio::time::sleep(RETRY).await,
            }
        }
    }
}
