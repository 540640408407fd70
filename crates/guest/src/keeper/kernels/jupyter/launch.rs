//! Starts a kernel: its process as the job's user, its connection file, its channels.

use std::sync::Arc;
use std::time::Duration;

use sandyard_protocol::{GuestError, GuestErrorCode, OutputStream, StartProcess};

use super::channels::{ChannelMessage, Channels, History};
use super::connection::ConnectionFile;
use super::program::JupyterKernel;
use super::session::JupyterSession;
use super::zmtp::{MemoryBudget, ZmtpError};
use crate::keeper::kernels::backend::{LiveKernel, stop};
use crate::keeper::kernels::context::KernelContext;
use crate::keeper::kernels::kernel::{KernelDocument, KernelHandle};
use crate::keeper::output::capture::{Follower, Piece};
use crate::keeper::processes::ManagedProcess;
use crate::limits::kernels::{START_DEADLINE, START_FAILURE_BYTES, START_POLL, START_TRIES, SUBSCRIBE_RETRY};

/// The job's own user writes the connection file, in one step, and becomes the kernel. Its text is passed in the environment because
/// arguments are listed.
const START: &str = "set -eu; umask 077; directory=${1%/*}; mkdir -p -- \"$directory\"; \
    new=${directory%/*}/.connection-$$; printf %s \"$SANDYARD_CONNECTION\" >\"$new\"; mv -fT -- \"$new\" \"$1\"; \
    unset SANDYARD_CONNECTION; shift; exec \"$@\"";

/// Starts the process and waits until it answers. A second try gets other ports.
pub(super) async fn launch(
    this: &'static JupyterKernel,
    context: &Arc<KernelContext>,
    kernel: &KernelHandle,
) -> Result<LiveKernel, GuestError> {
    let mut tried = 1;
    loop {
        match launch_once(this, context, kernel).await {
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
    context: &Arc<KernelContext>,
    kernel: &KernelHandle,
) -> Result<LiveKernel, GuestError> {
    let document = kernel.document();
    let process = context.processes.start(start(this, context, kernel, &document)?).await?;
    // Stored before the wait for its answer: a cancelled or killed start must leave a process that somebody can end.
    kernel.set_process(Some(process.clone()));
    kernel.change_document(|document| document.process = Some(process.id().clone()));
    context.registry.save();
    let deadline = tokio::time::timeout(START_DEADLINE, connect(&document, &process, &context.budget));
    match deadline.await {
        Ok(Ok(mut channels)) => {
            if let Some(code) = this.preparation {
                // If the kernel is gone already, the first execution notices.
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
    context: &KernelContext,
    kernel: &KernelHandle,
    document: &KernelDocument,
) -> Result<StartProcess, GuestError> {
    let file =
        kernel.connection_path.clone().ok_or_else(|| internal("a kernel without a connection file"))?;
    let mut argv = vec!["sh".into(), "-c".into(), START.into(), "kernel".into(), file.clone()];
    argv.extend(this.program());
    argv.push(file);
    let mut env = this.environment(&context.processes.environment().of_job());
    env.insert("SANDYARD_CONNECTION".into(), serde_json::to_string(&document.file).map_err(internal)?);
    Ok(StartProcess { argv, env, ..StartProcess::default() })
}

/// Tries until the kernel listens, or is gone.
async fn connect(
    document: &KernelDocument,
    process: &ManagedProcess,
    budget: &MemoryBudget,
) -> Result<Channels, ZmtpError> {
    loop {
        if process.exit().is_some() {
            return Err(ZmtpError::Closed);
        }
        match open(document, budget).await {
            // The kernel may just not listen yet, so every failure is retried. The caller has the deadline.
            Err(_) => tokio::time::sleep(START_POLL).await,
            outcome => return outcome,
        }
    }
}

/// Opens the channels and waits for the first answer and for the first published message: only then is the subscription in
/// force, and no message of the kernel is missed from now on.
async fn open(document: &KernelDocument, budget: &MemoryBudget) -> Result<Channels, ZmtpError> {
    let mut channels = open_channels(document, budget).await?;
    let (mut answered, mut subscribed) = (false, false);
    channels.ask_info().await?;
    while !(answered && subscribed) {
        match tokio::time::timeout(SUBSCRIBE_RETRY, channels.next()).await {
            Ok(received) => match received? {
                ChannelMessage::Shell(_) => answered = true,
                ChannelMessage::Iopub(_) => subscribed = true,
            },
            Err(_) if answered => drop(channels.ask_info().await?),
            Err(_) => {}
        }
    }
    Ok(channels)
}

async fn open_channels(document: &KernelDocument, budget: &MemoryBudget) -> Result<Channels, ZmtpError> {
    let file = document.file.as_ref().ok_or(ZmtpError::Malformed("no connection file"))?;
    Channels::open(file, &document.session, budget).await
}

fn live(this: &'static JupyterKernel, process: Arc<ManagedProcess>, channels: Channels) -> LiveKernel {
    let session = Box::new(JupyterSession::new(this, process.clone(), channels));
    LiveKernel { process, session }
}

/// The last lines a process printed.
fn last_words(process: &ManagedProcess) -> String {
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
    document: &KernelDocument,
    process: Arc<ManagedProcess>,
    budget: &MemoryBudget,
) -> Result<LiveKernel, ZmtpError> {
    let attempt = async {
        loop {
            match open_channels(document, budget).await {
                // The connection of the earlier keeper may not be closed yet, and the kernel not take the new one.
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
