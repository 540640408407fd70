//! The server of a `run` of root: a process of its own, because the `run` stays root, to write the result where its user wants it,
//! and the server must not be.
//!
//! The `run` starts this program with the same arguments behind a hidden command, and a socket as standard input. The server
//! says when it serves, or why it can't. It ends when the `run` closes the socket, or, after a `W`, when no job needs it any more.

use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as BlockingStream;
use std::process::{Child, Command, Stdio};

use sandyard_protocol::ErrorChain;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

use super::{Foundation, ServeError, YardServer};
use crate::config::{Settings, Surroundings};
use crate::ui::Ui;

/// The hidden command before the arguments of the `run`.
pub(crate) const EMBEDDED_COMMAND: &str = "embedded-server";
/// Asks the server to end once no job needs it.
const WAIT: u8 = b'W';
/// Longest report of a server.
const MAX_REPORT_BYTES: u64 = 64 * 1024;

/// The server's only message.
#[derive(Debug, Serialize, Deserialize)]
enum EmbeddedReport {
    Ready,
    /// Another process serves the yard.
    InUse {
        path: std::path::PathBuf,
        owner: String,
    },
    Failed {
        reason: String,
        hint: Option<String>,
    },
}

/// A server in a process of its own.
pub(crate) struct EmbeddedServer {
    socket: UnixStream,
    child: Child,
}

impl EmbeddedServer {
    /// Starts the server and waits until it serves.
    pub(crate) async fn start() -> Result<Self, ServeError> {
        let (ours, theirs) = BlockingStream::pair().map_err(ServeError::Warden)?;
        let mut command = Command::new("/proc/self/exe");
        command.arg(EMBEDDED_COMMAND).args(std::env::args_os().skip(1));
        command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null());
        let child = command.spawn().map_err(ServeError::Warden)?;
        let socket = ours.set_nonblocking(true).and_then(|()| UnixStream::from_std(ours));
        let mut server = Self { socket: socket.map_err(ServeError::Warden)?, child };
        let mut line = String::new();
        let mut reader = BufReader::new((&mut server.socket).take(MAX_REPORT_BYTES));
        let read = reader.read_line(&mut line).await.map_err(ServeError::Warden);
        drop(reader);
        read?;
        match serde_json::from_str(&line) {
            Ok(EmbeddedReport::Ready) => Ok(server),
            Ok(EmbeddedReport::InUse { path, owner }) => Err(ServeError::InUse { path, owner }),
            Ok(EmbeddedReport::Failed { reason, hint }) => Err(ServeError::Embedded { reason, hint }),
            Err(_) => Err(ServeError::Embedded { reason: "the server ended".to_owned(), hint: None }),
        }
    }

    /// Returns when no job needs the server any more.
    pub(crate) async fn until_idle(&mut self) {
        // After an error the server is gone, and so is the reason to wait.
        if self.socket.write_all(&[WAIT]).await.is_ok() {
            drop(self.socket.read(&mut [0]).await);
        }
    }

    /// Stops the server and waits for its end. Jobs go on.
    pub(crate) async fn stop(self) {
        let Self { socket, mut child } = self;
        drop(socket);
        drop(tokio::task::spawn_blocking(move || child.wait()).await);
    }
}

/// Serves for a `run`. The process must have one thread.
pub(crate) fn serve(surroundings: &Surroundings, ui: Ui, settings: &Settings) -> io::Result<()> {
    // A signal of the terminal is for the `run`, which then closes the socket. setsid fails only for the leader of a process group,
    // which has no terminal to lose.
    let _ = rustix::process::setsid();
    let mut socket = BlockingStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    match Foundation::lay(surroundings, settings, None) {
        Ok(foundation) => crate::runtime::block_on(serve_on(socket, surroundings, ui, foundation)),
        Err(error) => socket.write_all(&report(&failure(&error))?),
    }
}

async fn serve_on(
    socket: BlockingStream,
    surroundings: &Surroundings,
    ui: Ui,
    foundation: Foundation,
) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    let mut socket = UnixStream::from_std(socket)?;
    let server = match YardServer::open(surroundings, ui, foundation).await {
        Ok(server) => server,
        Err(error) => return socket.write_all(&report(&failure(&error))?).await,
    };
    socket.write_all(&report(&EmbeddedReport::Ready)?).await?;
    // The first reason to stop counts, and all only watch.
    tokio::select! {
        () = until_told(&mut socket, &server, &ui) => server.stop().await,
        error = server.broken() => ui.error(&error, error.hint().as_deref()),
    }
    Ok(())
}

/// Returns when the `run` is gone, or when no job needs the server and the `run` waits for that.
async fn until_told(socket: &mut UnixStream, server: &YardServer, ui: &Ui) {
    let mut byte = [0];
    if !matches!(socket.read(&mut byte).await, Ok(1)) || byte != [WAIT] {
        return;
    }
    tokio::select! {
        () = server.until_idle(ui) => {}
        _ = socket.read(&mut byte) => {}
    }
}

fn failure(error: &ServeError) -> EmbeddedReport {
    match error {
        ServeError::InUse { path, owner } => {
            EmbeddedReport::InUse { path: path.clone(), owner: owner.clone() }
        }
        other => EmbeddedReport::Failed { reason: ErrorChain(other).to_string(), hint: other.hint() },
    }
}

fn report(report: &EmbeddedReport) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(report)?;
    line.push(b'\n');
    Ok(line)
}
