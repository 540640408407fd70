//! The client of keeper: one connection for each request, over a Unix socket in the machine.
//!
//! Keeper may be restarted at any moment. Connecting waits for it. When a connection is lost in the middle of a request, the caller
//! decides what to do, because only the caller knows whether a repeated request would act twice.

use std::path::PathBuf;
use std::time::Duration;

use sandyard_pipe::{FrameError, FrameLimits, Framed};
use sandyard_protocol::limits::{
    AGENT_REQUEST_BYTES, DATA_BYTES, DESK_MESSAGE_BYTES, MODEL_CALL_BYTES, MODEL_EVENT_BYTES, REQUEST_BYTES,
};
use sandyard_protocol::{AgentRequest, GuestError, Reply, Request};
use tokio::net::UnixStream;

/// Delay between two attempts to connect. A restart of keeper takes some ten milliseconds.
const CONNECT_RETRY: Duration = Duration::from_millis(50);
/// How long a tool waits for keeper. A machine whose keeper stays away longer is lost.
const KEEPER_TIMEOUT: Duration = Duration::from_secs(60);

const TOOL_LIMITS: FrameLimits = FrameLimits {
    message_bytes: REQUEST_BYTES,
    sent_message_bytes: AGENT_REQUEST_BYTES,
    data_bytes: DATA_BYTES,
};
const JOURNAL_LIMITS: FrameLimits = FrameLimits {
    message_bytes: DESK_MESSAGE_BYTES,
    sent_message_bytes: DESK_MESSAGE_BYTES,
    data_bytes: DATA_BYTES,
};
const MODEL_LIMITS: FrameLimits = FrameLimits {
    message_bytes: MODEL_EVENT_BYTES,
    sent_message_bytes: MODEL_CALL_BYTES,
    data_bytes: DATA_BYTES,
};

/// A connection to keeper, cut into frames.
pub(crate) type KeeperStream = Framed<UnixStream>;

/// Connects to keeper's socket.
#[derive(Debug, Clone)]
pub(crate) struct KeeperClient {
    socket: PathBuf,
}

/// Why a request to keeper failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolError {
    /// Keeper rejected the request; nothing was done.
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
    /// Keeper's answer does not belong to the request.
    #[error("the machine gave an answer that does not fit")]
    Unexpected,
}

impl From<FrameError> for ToolError {
    fn from(_: FrameError) -> Self {
        Self::Lost
    }
}

impl KeeperClient {
    /// A client of the keeper that listens at `socket`.
    pub(crate) fn at(socket: PathBuf) -> Self {
        Self { socket }
    }

    /// Sends a request. Returns keeper's reply and the connection, which then carries the frames that the request documents.
    pub(crate) async fn ask(&self, request: Request) -> Result<(Reply, KeeperStream), ToolError> {
        let mut stream = self.send(request).await?;
        match stream.receive_message().await? {
            Reply::Failed(error) => Err(ToolError::Refused(error)),
            reply => Ok((reply, stream)),
        }
    }

    /// Sends a request without waiting for a reply: the caller sends content first.
    pub(crate) async fn send(&self, request: Request) -> Result<KeeperStream, ToolError> {
        let connect = tokio::time::timeout(KEEPER_TIMEOUT, self.connect(TOOL_LIMITS));
        let mut stream = connect.await.map_err(|_| ToolError::Unreachable)?;
        match stream.send_message(&AgentRequest::Tool(request)).await {
            Err(FrameError::TooLong(_)) => Err(ToolError::TooLong),
            sent => Ok(sent.map(|()| stream)?),
        }
    }

    /// Connects to the journal service on the host. Waits for as long as it takes.
    pub(crate) async fn journal(&self) -> Result<KeeperStream, FrameError> {
        self.begin(&AgentRequest::Desk, JOURNAL_LIMITS).await
    }

    /// Connects to the model service on the host, for one call. Waits for as long as it takes.
    pub(crate) async fn model(&self) -> Result<KeeperStream, FrameError> {
        self.begin(&AgentRequest::Model, MODEL_LIMITS).await
    }

    async fn begin(&self, request: &AgentRequest, limits: FrameLimits) -> Result<KeeperStream, FrameError> {
        let mut stream = self.connect(limits).await;
        stream.send_message(request).await?;
        Ok(stream)
    }

    async fn connect(&self, limits: FrameLimits) -> KeeperStream {
        loop {
            match UnixStream::connect(&self.socket).await {
                Ok(stream) => return Framed::new(stream, limits),
                Err(_) => tokio::time::sleep(CONNECT_RETRY).await,
            }
        }
    }
}
