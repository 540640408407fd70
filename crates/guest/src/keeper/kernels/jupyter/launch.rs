//! From nothing to a kernel that answers: its process as the job's user, its connection file, its channels.

use std::sync::Arc;
use std::time::Duration;

use sandyard_protocol::{GuestError, GuestErrorCode, OutputStream, StartProcess};

use super::JupyterKernel;
use super::channels::{Channels, History, Received};
use super::connection::ConnectionFile;
use super::session::JupyterSession;
use super::zmtp::{Budget, ZmtpError};
use crate::keeper::Keeper;
use crate::keeper::capture::{Follower, Piece};
use crate::keeper::kernels::backend::{LiveKernel, stop};
use crate::keeper::kernels::kernel::{Document, Kernel};
use crate::keeper::processes::{self, Process};
use crate::limits::kernels::{START_DEADLINE, START_FAILURE_BYTES, START_POLL, START_TRIES, SUBSCRIBE_RETRY};

/// The job's own user writes the connection file, in one step, and becomes the kernel. It goes by the environment because
/// arguments are listed.
const START: &str = "set -eu; umask 077; directory=${1%/*}; mkdir -p -- \"$directory\"; \
    new=${directory%/*}/.connection-$$; printf %s \"$SANDYARD_CONNECTION\" >\"$new\"; mv -fT -- \"$new\" \"$1\"; \
    unset SANDYARD_CONNECTION; shift; exec \"$@\"";

/// Starts the process and waits until it answers. A second try gets other ports.
pub(super) async fn launch(
    this: &'static JupyterKernel,
    keeper: &Arc<Keeper>,
    kernel: &Kernel,
) -> Result<LiveKernel, GuestError> {
    let mut tried = 1;
    loop {
        match launch_once(this, keeper, kernel).await {
            Err(_) if tried < START_TRIES => {
                tried += 1;
                let fresh = ConnectionFile::draw(this.kernel_name).map_err(internal)?;
                kernel.change_document(|document| document.file = Some(fresh));
            }
            outcome => return outcome,
        }
    }
}

async fn launch_once(
    this: &'static JupyterKernel,
    keeper: &Arc<Keeper>,
    kernel: &Kernel,
) -> Result<LiveKernel, GuestError> {
    let document = kernel.document();
    let process = processes::start(keeper, start(this, keeper, kernel, &document)?).await?;
    kernel.set_process(Some(process.clone()));
    kernel.change_document(|document| document.process = Some(process.id().clone()));
    keeper.kernels.save(keeper);
    let deadline = tokio::time::timeout(START_DEADLINE, connect(&document, &process, &keeper.kernels.budget));
    match deadline.await {
        Ok(Ok(mut channels)) => {
            if let Some(code) = this.preparation {
                // A kernel that is gone already is noticed by whoever needs it.
                let _ = channels.execute("prepare-kernel", code, History::Silent).await;
            }
            Ok(live(this, process, channels))
        }
        outcome => {
            let why = last_words(&process);
            stop(&process).await;
            Err(GuestError::new(
                GuestErrorCode::SpawnFailed,
                match (outcome, why.is_empty()) {
                    (Err(_), _) => "the kernel did not answer in time".to_owned(),
                    (_, true) => "the kernel could not be started".to_owned(),
                    (_, false) => format!("the kernel could not be started: {why}"),
                },
            ))
        }
    }
}

fn start(
    this: &JupyterKernel,
    keeper: &Keeper,
    kernel: &Kernel,
    document: &Document,
) -> Result<StartProcess, GuestError> {
    let file =
        kernel.connection_path.clone().ok_or_else(|| internal("a kernel without a connection file"))?;
    let mut argv = vec!["sh".into(), "-c".into(), START.into(), "kernel".into(), file.clone()];
    argv.extend(this.program());
    argv.push(file);
    let mut env = this.environment(&keeper.job.environment());
    env.insert("SANDYARD_CONNECTION".into(), serde_json::to_string(&document.file).map_err(internal)?);
    Ok(StartProcess { argv, env, ..StartProcess::default() })
}

/// Tries until the kernel listens, or is gone.
async fn connect(document: &Document, process: &Process, budget: &Budget) -> Result<Channels, ZmtpError> {
    loop {
        if process.exit().is_some() {
            return Err(ZmtpError::Closed);
        }
        match open(document, budget).await {
            // Whatever is wrong may be right in a moment; the deadline is the caller's.
            Err(_) => tokio::time::sleep(START_POLL).await,
            outcome => return outcome,
        }
    }
}

/// Opens the channels and waits for the first answer and for the first published message: only then is the subscription in
/// force, and nothing that the kernel says from now on is missed.
async fn open(document: &Document, budget: &Budget) -> Result<Channels, ZmtpError> {
    let mut channels = open_channels(document, budget).await?;
    let (mut answered, mut subscribed) = (false, false);
    channels.ask_info().await?;
    while !(answered && subscribed) {
        match tokio::time::timeout(SUBSCRIBE_RETRY, channels.next()).await {
            Ok(received) => match received? {
                Received::Shell(_) => answered = true,
                Received::Iopub(_) => subscribed = true,
            },
            Err(_) if answered => drop(channels.ask_info().await?),
            Err(_) => {}
        }
    }
    Ok(channels)
}

async fn open_channels(document: &Document, budget: &Budget) -> Result<Channels, ZmtpError> {
    let file = document.file.as_ref().ok_or(ZmtpError::Malformed("no connection file"))?;
    Channels::open(file, &document.session, budget).await
}

fn live(this: &'static JupyterKernel, process: Arc<Process>, channels: Channels) -> LiveKernel {
    let session = Box::new(JupyterSession::new(this, process.clone(), channels));
    LiveKernel { process, session }
}

/// The last lines a process printed.
fn last_words(process: &Process) -> String {
    let mut text = String::new();
    for stream in [OutputStream::Stdout, OutputStream::Stderr] {
        let capture = process.output(stream).clone();
        let begin = capture.end().saturating_sub(START_FAILURE_BYTES as u64);
        let mut buffer = [0; START_FAILURE_BYTES];
        if let Ok(Piece::Bytes { count, .. }) = Follower::new(capture, begin).read(&mut buffer) {
            text.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
    }
    let text = super::content::without_escapes(text.trim());
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned()
}

/// Connects to a kernel that an earlier keeper started.
pub(super) async fn reconnect(
    this: &'static JupyterKernel,
    document: &Document,
    process: Arc<Process>,
    budget: &Budget,
) -> Result<LiveKernel, ZmtpError> {
    let attempt = async {
        loop {
            match open_channels(document, budget).await {
                // The connection of the keeper before may not be gone yet, and ours not be taken.
                Err(ZmtpError::Io(_)) if process.exit().is_none() => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                outcome => return outcome,
            }
        }
    };
    let channels = tokio::time::timeout(START_DEADLINE, attempt).await.map_err(|_| ZmtpError::Stalled)??;
    Ok(live(this, process, channels))
}

fn internal(error: impl std::fmt::Display) -> GuestError {
    GuestError::new(GuestErrorCode::Internal, error.to_string())
}
