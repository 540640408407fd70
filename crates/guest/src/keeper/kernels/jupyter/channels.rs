//! The channels of a running kernel: shell for requests, iopub for published messages, control for interrupts.

use serde_json::json;

use super::connection::ConnectionFile;
use super::message::{Incoming, Signer, decode, encode};
use super::zmtp::{Connection, MemoryBudget, SocketRole, ZmtpError};

/// The channels of one kernel.
#[derive(Debug)]
pub(super) struct Channels {
    shell: Connection,
    iopub: Connection,
    control_port: u16,
    signer: Signer,
    session: String,
    budget: MemoryBudget,
    requests: u64,
}

/// How the kernel treats a request in its history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum History {
    Counted,
    /// Not counted, but its result is shown.
    Uncounted,
    /// Not counted, and only printed text is shown.
    Silent,
}

/// A message and its channel.
#[derive(Debug)]
pub(super) enum ChannelMessage {
    /// An answer on the shell channel.
    Shell(Incoming),
    /// A message that the kernel sends to all its clients.
    Iopub(Incoming),
}

impl Channels {
    /// Connects. The session is also the client's identity, so answers to requests of an earlier keeper reach the next one.
    pub(super) async fn open(
        file: &ConnectionFile,
        session: &str,
        budget: &MemoryBudget,
    ) -> Result<Self, ZmtpError> {
        let role = SocketRole::Dealer { identity: session.as_bytes() };
        let signer = Signer::new(&file.key).ok_or(ZmtpError::Malformed("an unusable key"))?;
        Ok(Self {
            iopub: Connection::open(file.iopub_port, SocketRole::Subscriber, budget.clone()).await?,
            shell: Connection::open(file.shell_port, role, budget.clone()).await?,
            control_port: file.control_port,
            signer,
            session: session.to_owned(),
            budget: budget.clone(),
            requests: 0,
        })
    }

    /// Asks for the kernel's description; the name of the request.
    pub(super) async fn ask_info(&mut self) -> Result<String, ZmtpError> {
        self.requests += 1;
        let id = format!("info-{}-{}", self.requests, &self.session);
        let frames = encode(&self.signer, &self.session, &id, "kernel_info_request", &json!({}))
            .map_err(|_| ZmtpError::Malformed("a request that can't be written"))?;
        self.shell.send(&frames).await?;
        Ok(id)
    }

    /// Sends code under a name. A prompt is answered by the kernel itself with an exception, because the request says
    /// that we can't.
    pub(super) async fn execute(&mut self, id: &str, code: &str, history: History) -> Result<(), ZmtpError> {
        let content = json!({
            "code": code, "silent": history == History::Silent, "store_history": history == History::Counted,
            "user_expressions": {},
            "allow_stdin": false, "stop_on_error": false,
        });
        let frames = encode(&self.signer, &self.session, id, "execute_request", &content)
            .map_err(|_| ZmtpError::Malformed("a request that can't be written"))?;
        self.shell.send(&frames).await
    }

    /// Asks the kernel to interrupt the running code, on a connection of its own.
    pub(super) async fn interrupt(&mut self) -> Result<(), ZmtpError> {
        let identity = format!("{}-control", self.session);
        let role = SocketRole::Dealer { identity: identity.as_bytes() };
        let mut control = Connection::open(self.control_port, role, self.budget.clone()).await?;
        self.requests += 1;
        let id = format!("interrupt-{}-{}", self.requests, &self.session);
        let frames = encode(&self.signer, &self.session, &id, "interrupt_request", &json!({}))
            .map_err(|_| ZmtpError::Malformed("a request that can't be written"))?;
        control.send(&frames).await?;
        // The answer shows that the kernel has read the request. Closing the connection earlier would lose it.
        let answered =
            tokio::time::timeout(crate::limits::kernels::HANDSHAKE_DEADLINE, control.receive()).await;
        answered.map_err(|_| ZmtpError::Stalled)?.map(drop)
    }

    /// Returns the next valid message. May be cancelled.
    pub(super) async fn next(&mut self) -> Result<ChannelMessage, ZmtpError> {
        loop {
            // Biased: messages that were published before an answer was sent are read before the answer, so output comes before the end.
            // A flood on iopub may hold the answer back; the caller's time limits end that. Cancelling `receive` loses nothing: the
            // connection keeps the bytes of an unfinished message.
            let heard = tokio::select! {
                biased;
                message = self.iopub.receive() => decode(&self.signer, message?).map(ChannelMessage::Iopub),
                message = self.shell.receive() => decode(&self.signer, message?).map(ChannelMessage::Shell),
            };
            match heard {
                Some(heard) => return Ok(heard),
                // A flood of unsigned messages must not keep others from their turn.
                None => tokio::task::yield_now().await,
            }
        }
    }
}
