//! One execution as a Jupyter kernel reports it.
//!
//! It is over when the kernel has answered and reported that it is idle; for kernels that report idle too early, when a mark
//! that is printed after it has come, because output keeps its order; or when nothing came for a while after the answer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use sandyard_protocol::{ExecutionId, OutputStream};

use super::channels::{ChannelMessage, Channels, History};
use super::content::{ExecuteReply, Published};
use super::message::Incoming;
use super::program::{InterruptMethod, JupyterKernel};
use super::zmtp::ZmtpError;
use crate::keeper::clock::sleep_until_instant;
use crate::keeper::kernels::backend::{ExecutionVerdict, KernelReport, KernelSession, KernelSessionError};
use crate::keeper::kernels::kernel::{Execution, ExecutionTarget};
use crate::keeper::output::capture::{Follower, Piece};
use crate::keeper::processes::ManagedProcess;
use crate::limits::kernels::{DRAIN_TIMEOUT, IDLE_TIMEOUT, LAST_WORDS};
use crate::process_host::ProcessHost;

const SIGINT: i32 = 2;
const RAW_BYTES: usize = 16 * 1024;

/// The conversation with one kernel.
#[derive(Debug)]
pub(super) struct JupyterSession {
    kernel: &'static JupyterKernel,
    process: Arc<ManagedProcess>,
    channels: Channels,
    current: CurrentExecution,
}

impl JupyterSession {
    pub(super) fn new(
        kernel: &'static JupyterKernel,
        process: Arc<ManagedProcess>,
        channels: Channels,
    ) -> Self {
        let current = CurrentExecution::new(String::new(), &process);
        Self { kernel, process, channels, current }
    }
}

/// The progress of the current execution.
#[derive(Debug)]
struct CurrentExecution {
    id: String,
    reply: Option<ExecuteReply>,
    replied_at: Instant,
    idle: bool,
    /// The request after the end whose output shows that all earlier output has come.
    fence: Option<OutputFence>,
    /// After a restart of keeper: when this request is answered, the execution must be over.
    restart_fence: Option<String>,
    /// When the last message for us came.
    heard_at: Instant,
    /// Output that the process printed directly, not through its channels.
    raw: [(OutputStream, Option<Follower>); 2],
    reports: VecDeque<KernelReport>,
    /// Set when the process ended: until when the channels are read.
    last_until: Option<Instant>,
}

/// Texts keep their order, and so do results and displays; but texts and results may overtake each other. So the mark is sent as both.
#[derive(Debug)]
struct OutputFence {
    id: String,
    text_came: bool,
    result_came: bool,
}

impl CurrentExecution {
    fn new(id: String, process: &ManagedProcess) -> Self {
        let now = Instant::now();
        let raw = [OutputStream::Stdout, OutputStream::Stderr].map(|stream| {
            let capture = process.output(stream).clone();
            let end = capture.end();
            (stream, Some(Follower::new(capture, end)))
        });
        Self {
            id,
            reply: None,
            replied_at: now,
            idle: false,
            fence: None,
            restart_fence: None,
            heard_at: now,
            raw,
            reports: VecDeque::new(),
            last_until: None,
        }
    }

    /// Takes a message of the channels.
    fn take(&mut self, received: ChannelMessage) {
        match received {
            ChannelMessage::Shell(message) if message.parent == self.id => self.take_reply(&message),
            ChannelMessage::Shell(message) => {
                if self.restart_fence.as_ref() == Some(&message.parent) && self.reply.is_none() {
                    let text = "it ended while keeper was being restarted; how is not known";
                    self.reports.push_back(KernelReport::Note(text.into()));
                    self.reports.push_back(KernelReport::Over(ExecutionVerdict::Lost));
                }
            }
            ChannelMessage::Iopub(message) if message.parent == self.id => {
                self.heard_at = Instant::now();
                self.take_published(&message);
            }
            ChannelMessage::Iopub(message) => {
                if let Some(fence) = self.fence.as_mut().filter(|fence| fence.id == message.parent) {
                    self.heard_at = Instant::now();
                    self.reports.extend(fence.take(&message));
                    if fence.text_came && fence.result_came {
                        self.reports.push_back(KernelReport::Over(self.verdict()));
                    }
                }
            }
        }
    }

    fn take_reply(&mut self, message: &Incoming) {
        let reply = ExecuteReply::read(message);
        self.replied_at = Instant::now();
        self.heard_at = self.replied_at;
        self.reports.extend([KernelReport::Count(reply.execution_count), KernelReport::Answered]);
        self.reply = Some(reply);
    }

    fn take_published(&mut self, message: &Incoming) {
        self.reports.push_back(match Published::read(message) {
            Published::Text(stream, text) => KernelReport::Text(stream, text),
            Published::Output(kind, bundle) => KernelReport::Output(kind, bundle),
            Published::Error(error) => KernelReport::Error(error),
            Published::Clear => KernelReport::Clear,
            Published::Input(count) => KernelReport::Count(count),
            Published::TooLarge(bytes) => KernelReport::Note(format!(
                "an output was too large to be taken: {bytes} bytes of it are left out"
            )),
            Published::Idle => return self.idle = true,
            Published::Other => return,
        });
    }

    fn is_done(&self) -> bool {
        self.reply.is_some() && self.idle
    }

    fn verdict(&self) -> ExecutionVerdict {
        let reply = self.reply.clone().unwrap_or_default();
        match reply.status.as_str() {
            "ok" => ExecutionVerdict::Ok,
            "aborted" | "abort" => ExecutionVerdict::Aborted,
            _ => ExecutionVerdict::Failed(reply.error),
        }
    }

    /// When an answered execution counts as over, if nothing else shows it.
    fn settled_at(&self) -> Option<Instant> {
        self.reply.as_ref()?;
        let quiet = self.replied_at.max(self.heard_at) + IDLE_TIMEOUT;
        Some(quiet.min(self.replied_at + DRAIN_TIMEOUT))
    }
}

#[async_trait]
impl KernelSession for JupyterSession {
    async fn execute(&mut self, execution: &Execution) -> Result<(), KernelSessionError> {
        self.current = CurrentExecution::new(execution.info.id.0.clone(), &self.process);
        let job = matches!(execution.target, ExecutionTarget::Job);
        if let Some(code) = self.kernel.job_preparation.filter(|_| job) {
            self.channels.execute("prepare", code, History::Silent).await?;
        }
        Ok(self.channels.execute(&execution.info.id.0, &execution.code, History::Counted).await?)
    }

    async fn resume(&mut self, execution: &ExecutionId) -> Result<(), KernelSessionError> {
        self.current = CurrentExecution::new(execution.0.clone(), &self.process);
        self.current.restart_fence = Some(self.channels.ask_info().await?);
        Ok(())
    }

    async fn next(&mut self) -> Result<KernelReport, KernelSessionError> {
        loop {
            if let Some(report) = self.current.reports.pop_front() {
                return Ok(report);
            }
            if self.current.is_done() && !self.kernel.idles_early {
                return Ok(KernelReport::Over(self.current.verdict()));
            }
            let settled = self.current.settled_at();
            let [stdout, stderr] = &mut self.current.raw;
            // Biased: messages of the kernel come before the text that its process printed, and before the silence after them. A
            // flood on the channels may starve the rest, but `run` polls limits and orders before all of this. Cancelling loses
            // nothing: `channels.next` keeps its bytes, and a follower moves on only when it returns bytes.
            tokio::select! {
                biased;
                received = self.channels.next() => self.current.take(received?),
                bytes = next_raw(stdout) => return Ok(self.raw_text(OutputStream::Stdout, &bytes)),
                bytes = next_raw(stderr) => return Ok(self.raw_text(OutputStream::Stderr, &bytes)),
                () = sleep_until_instant(settled) => return Ok(KernelReport::Over(self.current.verdict())),
            }
            if self.needs_fence() && self.current.reports.is_empty() {
                return Ok(KernelReport::Nothing);
            }
        }
    }

    async fn advance(&mut self, _host: &dyn ProcessHost) {
        if self.needs_fence() {
            let id = format!("fence-{}", self.current.id);
            let code = format!("console.log({:?}); {:?}", mark(&id), mark(&id));
            // A kernel that can't be asked any more is noticed by its silence.
            let _ = self.channels.execute(&id, &code, History::Uncounted).await;
            self.current.fence = Some(OutputFence { id, text_came: false, result_came: false });
        }
    }

    async fn next_after_exit(&mut self) -> Option<KernelReport> {
        let until = *self.current.last_until.get_or_insert_with(|| Instant::now() + LAST_WORDS);
        loop {
            if let Some(report) = self.current.reports.pop_front() {
                return Some(report);
            }
            match tokio::time::timeout_at(until.into(), self.channels.next()).await {
                Ok(Ok(received)) => self.current.take(received),
                Ok(Err(_)) | Err(_) => break,
            }
        }
        // After the channels: text that the process printed directly is mostly the reason of its death.
        for (stream, follower) in &mut self.current.raw {
            let mut buffer = vec![0; RAW_BYTES];
            if let Some(Ok(Piece::Bytes { count, .. })) = follower.as_mut().map(|raw| raw.read(&mut buffer)) {
                return Some(KernelReport::Text(
                    *stream,
                    String::from_utf8_lossy(&buffer[..count]).into_owned(),
                ));
            }
        }
        None
    }

    async fn interrupt(&mut self, host: &dyn ProcessHost) {
        match self.kernel.interrupt {
            InterruptMethod::Signal => drop(self.process.signal(host, SIGINT).await),
            InterruptMethod::Message => drop(self.channels.interrupt().await),
        }
    }

    async fn idle(&mut self) -> KernelSessionError {
        // A follower that does not read would hold back the process's output.
        for (_, follower) in &mut self.current.raw {
            *follower = None;
        }
        loop {
            if let Err(error) = self.channels.next().await {
                return error.into();
            }
        }
    }
}

impl JupyterSession {
    fn needs_fence(&self) -> bool {
        self.kernel.idles_early && self.current.is_done() && self.current.fence.is_none()
    }

    fn raw_text(&mut self, stream: OutputStream, bytes: &[u8]) -> KernelReport {
        self.current.heard_at = Instant::now();
        KernelReport::Text(stream, String::from_utf8_lossy(bytes).into_owned())
    }
}

/// The text that is printed after an execution to see that all of its own output has come.
fn mark(fence: &str) -> String {
    format!("[{fence}]")
}

impl OutputFence {
    /// Takes late output, which comes in the name of the request after it, up to the mark.
    fn take(&mut self, message: &Incoming) -> Option<KernelReport> {
        let mark = mark(&self.id);
        match Published::read(message) {
            Published::Text(stream, text) if !self.text_came => {
                let end = text.find(&mark);
                self.text_came = end.is_some();
                let own = end.map_or(text.as_str(), |end| &text[..end]);
                (!own.is_empty()).then(|| KernelReport::Text(stream, own.to_owned()))
            }
            Published::Output(_, bundle) if bundle.text().is_some_and(|text| text.contains(&mark)) => {
                self.result_came = true;
                None
            }
            Published::Output(kind, bundle) if !self.result_came => Some(KernelReport::Output(kind, bundle)),
            _ => None,
        }
    }
}

/// Returns the next bytes that the process printed directly.
async fn next_raw(raw: &mut (OutputStream, Option<Follower>)) -> Vec<u8> {
    loop {
        let Some(follower) = &mut raw.1 else { return std::future::pending().await };
        let mut buffer = vec![0; RAW_BYTES];
        match follower.read(&mut buffer) {
            Ok(Piece::Bytes { count, .. }) => {
                buffer.truncate(count);
                return buffer;
            }
            Ok(Piece::Lost(_)) => {}
            Ok(Piece::Nothing) => follower.changed().await,
            Ok(Piece::End) | Err(_) => raw.1 = None,
        }
    }
}

impl From<ZmtpError> for KernelSessionError {
    fn from(error: ZmtpError) -> Self {
        Self(error.to_string())
    }
}
