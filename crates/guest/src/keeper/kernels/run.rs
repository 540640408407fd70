//! One execution in a running kernel, from the request to the last of its output.
//!
//! It is over when the kernel has answered and says that it is idle; for kernels that say so too early, when something
//! that is printed after it has come, because output keeps its order; or when the kernel's process ended, or a limit was
//! reached and it would not stop.

use std::time::Instant;

use sandyard_protocol::{ExecutionEnd, Exit, Outcome, OutputStream};
use tokio::sync::mpsc;

use super::actor::how;
use super::channels::{Heard, History};
use super::content::{ExecuteReply, Published};
use super::kernel::{Execution, Kernel, Order};
use super::language::{Interrupt, Kind};
use super::launch::Live;
use super::limits::{DRAIN_PATIENCE, IDLE_PATIENCE, INTERRUPT_PATIENCE, LAST_WORDS};
use super::message::Incoming;
use super::sink::Sink;
use super::zmtp::ZmtpError;
use crate::keeper::Keeper;
use crate::keeper::capture::{Follower, Piece};
use crate::keeper::clock::sleep_until;

const SIGINT: i32 = 2;

/// What is to become of the kernel afterwards.
#[derive(Debug)]
pub(super) enum After {
    /// It goes on.
    Ready,
    /// Its process is gone, or must go: why.
    Lost(String),
    /// A caller's wish that ended the execution too.
    Order(Order),
}

/// How the execution is to be waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Begun {
    /// It was sent just now.
    Now,
    /// It was sent by the keeper before; this request after it is answered when it must be over.
    Before {
        /// The name of that request.
        fence: String,
    },
}

/// An execution under way.
pub(super) struct Run<'a> {
    pub(super) keeper: &'a Keeper,
    pub(super) kernel: &'a Kernel,
    pub(super) execution: &'a Execution,
    pub(super) live: &'a mut Live,
    pub(super) orders: &'a mut mpsc::Receiver<Order>,
    pub(super) begun: Begun,
}

struct Progress {
    reply: Option<ExecuteReply>,
    replied_at: Instant,
    idle: bool,
    /// The request after the end whose output shows that everything before it has come.
    fence: Option<Fence>,
    /// When the last message for us came.
    heard_at: Instant,
    /// Why it was interrupted, and until when a limit waits for it to obey.
    interrupted: Option<(Outcome, Option<Instant>)>,
}

/// Texts keep their order, and so do results and what is shown; but not each with the other. So the mark comes as both.
struct Fence {
    id: String,
    text_came: bool,
    result_came: bool,
}

impl Progress {
    fn new() -> Self {
        let now = Instant::now();
        Self { reply: None, replied_at: now, idle: false, fence: None, heard_at: now, interrupted: None }
    }
}

enum Happened {
    Heard(Result<Heard, ZmtpError>),
    Raw(OutputStream, Vec<u8>),
    Exited(Exit),
    Order(Option<Order>),
    Unwanted,
    Deadline(Outcome),
    Disobeyed(Outcome),
    Settled,
}

impl Run<'_> {
    /// Runs it to its end.
    pub(super) async fn run(mut self, sink: &mut Sink<'_>) -> (ExecutionEnd, After) {
        let mut progress = Progress::new();
        let (end, after) = self.run_with(&mut progress, sink).await;
        // Some failures are told in the answer alone.
        if let (Outcome::Error, false, Some(reply)) = (end.outcome, sink.has_error(), progress.reply) {
            sink.error(reply.error).await;
        }
        (end, after)
    }

    async fn run_with(&mut self, progress: &mut Progress, sink: &mut Sink<'_>) -> (ExecutionEnd, After) {
        let mut raw = [OutputStream::Stdout, OutputStream::Stderr].map(|stream| {
            let capture = self.live.process.output(stream).clone();
            let end = capture.end();
            (stream, Some(Follower::new(capture, end)))
        });
        sink.begin();
        loop {
            match self.happens(progress, sink, &mut raw).await {
                Happened::Heard(Ok(heard)) => {
                    if let Some(end) = self.hear(heard, progress, sink).await {
                        return (end, After::Ready);
                    }
                }
                Happened::Heard(Err(error)) => return self.broken(&error, progress, sink, &mut raw).await,
                Happened::Raw(stream, bytes) => {
                    progress.heard_at = Instant::now();
                    sink.text(stream, &String::from_utf8_lossy(&bytes)).await;
                }
                Happened::Exited(exit) => return self.died(exit, progress, sink, &mut raw).await,
                Happened::Order(Some(Order::Interrupt(answer))) => {
                    self.interrupt().await;
                    progress.interrupted.get_or_insert((Outcome::Interrupted, None));
                    let _ = answer.send(());
                }
                Happened::Order(Some(Order::Start(answer))) => drop(answer.send(Ok(()))),
                Happened::Order(Some(order)) => {
                    sink.note("the kernel was restarted or stopped while this ran".into());
                    return (self.end(Outcome::Interrupted, sink), After::Order(order));
                }
                // The kernel's last owner is gone, and this task with it.
                Happened::Order(None) => return (self.end(Outcome::Aborted, sink), After::Ready),
                Happened::Unwanted => {
                    self.interrupt().await;
                    progress.interrupted.get_or_insert((Outcome::Interrupted, None));
                }
                Happened::Deadline(outcome) => {
                    self.interrupt().await;
                    progress.interrupted = Some((outcome, Some(Instant::now() + INTERRUPT_PATIENCE)));
                }
                Happened::Disobeyed(outcome) => {
                    let why = "did not stop when it was interrupted and was ended".to_owned();
                    sink.note(format!("the kernel `{}` {why}; its state is lost", self.kernel.id));
                    return (self.end(outcome, sink), After::Lost(why));
                }
                Happened::Settled => {
                    let outcome = self.outcome(progress);
                    return (self.end(outcome, sink), After::Ready);
                }
            }
        }
    }

    async fn happens(
        &mut self,
        progress: &Progress,
        sink: &Sink<'_>,
        raw: &mut [(OutputStream, Option<Follower>); 2],
    ) -> Happened {
        let limits = self.execution.limits;
        let in_time =
            progress.interrupted.is_none_or(|(_, until)| until.is_none()) && progress.reply.is_none();
        let silent_at = limits.silence.map(|silence| sink.last_output() + silence);
        let disobeyed = progress.interrupted.and_then(|(outcome, until)| Some((outcome, until?)));
        let settled = settled_at(progress);
        let [stdout, stderr] = raw;
        // Wishes and limits first: a kernel that talks without end must not keep them waiting. What it says comes before its
        // end, and before the quiet after it.
        tokio::select! {
            biased;
            order = self.orders.recv() => Happened::Order(order),
            () = self.execution.unwanted.notified() => Happened::Unwanted,
            () = at(disobeyed.map(|(_, until)| until)) => {
                Happened::Disobeyed(disobeyed.map_or(Outcome::TimedOut, |(outcome, _)| outcome))
            }
            () = sleep_until(limits.deadline_ms), if in_time => Happened::Deadline(Outcome::TimedOut),
            () = at(silent_at), if in_time => Happened::Deadline(Outcome::IdleTimedOut),
            heard = self.live.channels.next() => Happened::Heard(heard),
            bytes = next_raw(stdout) => Happened::Raw(stdout.0, bytes),
            bytes = next_raw(stderr) => Happened::Raw(stderr.0, bytes),
            exit = self.live.process.ended() => Happened::Exited(exit),
            () = at(settled) => Happened::Settled,
        }
    }

    /// Takes a message; an end if it is one.
    async fn hear(
        &mut self,
        heard: Heard,
        progress: &mut Progress,
        sink: &mut Sink<'_>,
    ) -> Option<ExecutionEnd> {
        let ours = self.execution.info.id.0.as_str();
        match heard {
            Heard::Shell(message) if message.parent == ours => {
                let reply = ExecuteReply::read(&message);
                sink.set_count(reply.execution_count);
                progress.replied_at = Instant::now();
                progress.heard_at = progress.replied_at;
                progress.reply = Some(reply);
            }
            Heard::Shell(message) => {
                let fence = matches!(&self.begun, Begun::Before { fence } if message.parent == *fence);
                if fence && progress.reply.is_none() {
                    sink.note("it ended while keeper was being restarted; how is not known".into());
                    return Some(self.end(Outcome::Lost, sink));
                }
            }
            Heard::Iopub(message) if message.parent == ours => {
                progress.heard_at = Instant::now();
                take(&message, progress, sink).await;
            }
            Heard::Iopub(message) => {
                let fence = progress.fence.as_mut().filter(|fence| fence.id == message.parent);
                if let Some(fence) = fence {
                    progress.heard_at = Instant::now();
                    fence.take(&message, sink).await;
                    if fence.text_came && fence.result_came {
                        return Some(self.end(self.outcome(progress), sink));
                    }
                }
            }
        }
        let done = progress.reply.is_some() && progress.idle;
        if done && !Kind::of(self.kernel.language).idles_early {
            return Some(self.end(self.outcome(progress), sink));
        }
        if done && progress.fence.is_none() {
            let id = format!("fence-{}", self.execution.info.id);
            let code = format!("console.log({:?}); {:?}", mark(&id), mark(&id));
            // A kernel that can't be asked any more is noticed by its silence.
            let _ = self.live.channels.execute(&id, &code, History::Uncounted).await;
            progress.fence = Some(Fence { id, text_came: false, result_came: false });
        }
        None
    }

    fn outcome(&self, progress: &Progress) -> Outcome {
        let status = progress.reply.as_ref().map_or("", |reply| reply.status.as_str());
        match (progress.interrupted, status) {
            (Some((outcome @ (Outcome::TimedOut | Outcome::IdleTimedOut), _)), _) => outcome,
            (_, "ok") => Outcome::Ok,
            (Some((outcome, _)), _) => outcome,
            (None, "aborted" | "abort") => Outcome::Aborted,
            (None, _) => Outcome::Error,
        }
    }

    fn end(&self, outcome: Outcome, sink: &Sink<'_>) -> ExecutionEnd {
        ExecutionEnd { outcome, execution_count: sink.count(), exit: None }
    }

    /// Asks the kernel to stop. One that can't be asked is noticed by its limits.
    async fn interrupt(&mut self) {
        match Kind::of(self.kernel.language).interrupt {
            Interrupt::Signal => drop(self.live.process.signal(self.keeper.host.as_ref(), SIGINT).await),
            Interrupt::Message => drop(self.live.channels.interrupt().await),
        }
    }

    /// The process ended: what it still said is taken.
    async fn died(
        &mut self,
        exit: Exit,
        progress: &Progress,
        sink: &mut Sink<'_>,
        raw: &mut [(OutputStream, Option<Follower>); 2],
    ) -> (ExecutionEnd, After) {
        self.take_last_words(sink, raw).await;
        let how = how(exit);
        sink.note(format!("the kernel `{}` {how} while this ran; its state is lost", self.kernel.id));
        let outcome = match progress.interrupted {
            Some((outcome @ (Outcome::TimedOut | Outcome::IdleTimedOut), _)) => outcome,
            _ => Outcome::Died,
        };
        let end = ExecutionEnd { outcome, execution_count: sink.count(), exit: Some(exit) };
        (end, After::Lost(how))
    }

    /// A kernel whose channels are gone is of no use, unless its process just ended.
    async fn broken(
        &mut self,
        error: &ZmtpError,
        progress: &Progress,
        sink: &mut Sink<'_>,
        raw: &mut [(OutputStream, Option<Follower>); 2],
    ) -> (ExecutionEnd, After) {
        if let Ok(exit) = tokio::time::timeout(IDLE_PATIENCE, self.live.process.ended()).await {
            return self.died(exit, progress, sink, raw).await;
        }
        let why = format!("could not be understood any more ({error}) and was ended");
        sink.note(format!("the kernel `{}` {why}; its state is lost", self.kernel.id));
        (self.end(Outcome::Died, sink), After::Lost(why))
    }

    async fn take_last_words(
        &mut self,
        sink: &mut Sink<'_>,
        raw: &mut [(OutputStream, Option<Follower>); 2],
    ) {
        let ours = self.execution.info.id.0.clone();
        let mut progress = Progress::new();
        let taking = async {
            while let Ok(heard) = self.live.channels.next().await {
                if let Heard::Iopub(message) = heard
                    && message.parent == ours
                {
                    take(&message, &mut progress, sink).await;
                }
            }
        };
        let _ = tokio::time::timeout(LAST_WORDS, taking).await;
        for (stream, follower) in raw {
            let Some(follower) = follower else { continue };
            let mut buffer = vec![0; 16 * 1024];
            while let Ok(Piece::Bytes { count, .. }) = follower.read(&mut buffer) {
                sink.text(*stream, &String::from_utf8_lossy(&buffer[..count])).await;
            }
        }
    }
}

/// Takes what was published for us.
async fn take(message: &Incoming, progress: &mut Progress, sink: &mut Sink<'_>) {
    match Published::read(message) {
        Published::Text(stream, text) => sink.text(stream, &text).await,
        Published::Output(kind, bundle) => sink.output(kind, bundle).await,
        Published::Error(error) => sink.error(error).await,
        Published::Clear => sink.clear(),
        Published::Idle => progress.idle = true,
        Published::Input(count) => sink.set_count(count),
        Published::TooLarge(bytes) => {
            sink.note(format!("an output was too large to be taken: {bytes} bytes of it are left out"));
        }
        Published::Other => {}
    }
}

/// What is printed after an execution to see that all of its own output has come.
fn mark(fence: &str) -> String {
    format!("[{fence}]")
}

impl Fence {
    /// Takes late output, which comes in the name of the request after it, up to the mark.
    async fn take(&mut self, message: &Incoming, sink: &mut Sink<'_>) {
        let mark = mark(&self.id);
        match Published::read(message) {
            Published::Text(stream, text) if !self.text_came => {
                let end = text.find(&mark);
                self.text_came = end.is_some();
                let own = end.map_or(text.as_str(), |end| &text[..end]);
                if !own.is_empty() {
                    sink.text(stream, own).await;
                }
            }
            Published::Output(_, bundle) if bundle.text().is_some_and(|text| text.contains(&mark)) => {
                self.result_came = true;
            }
            Published::Output(kind, bundle) if !self.result_came => sink.output(kind, bundle).await,
            _ => {}
        }
    }
}

/// When an execution that was answered is taken to be over, if nothing else says so.
fn settled_at(progress: &Progress) -> Option<Instant> {
    progress.reply.as_ref()?;
    let quiet = progress.replied_at.max(progress.heard_at) + IDLE_PATIENCE;
    Some(quiet.min(progress.replied_at + DRAIN_PATIENCE))
}

/// The next bytes that the process itself printed, past its channels.
async fn next_raw(raw: &mut (OutputStream, Option<Follower>)) -> Vec<u8> {
    loop {
        let Some(follower) = &mut raw.1 else { return std::future::pending().await };
        let mut buffer = vec![0; 16 * 1024];
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

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant.into()).await,
        None => std::future::pending().await,
    }
}
