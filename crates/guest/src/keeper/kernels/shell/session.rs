//! One execution in keeper's own bash.
//!
//! It is over when its end mark has come on both streams: everything the code printed came before. Output that a background
//! process prints later belongs to no execution, or to the execution that runs then.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use sandyard_protocol::{ExecutionError, ExecutionId, OutputStream};

use super::command::Commands;
use super::marks::{EndMark, Mark, MarkScanner, TextDecoder};
use crate::keeper::clock::sleep_until_instant;
use crate::keeper::kernels::backend::{ExecutionVerdict, KernelReport, KernelSession, KernelSessionError};
use crate::keeper::kernels::kernel::Execution;
use crate::keeper::output::capture::{Follower, Piece};
use crate::keeper::processes::ManagedProcess;
use crate::limits::kernels::{INTERRUPT_REPEAT, INTERRUPT_REPEATS, TEXT_BYTES};
use crate::process_host::ProcessHost;

const SIGINT: i32 = 2;

/// The conversation with one bash.
#[derive(Debug)]
pub(super) struct ShellSession {
    process: Arc<ManagedProcess>,
    /// The marks are derived from it.
    secret: String,
    commands: Commands,
    current: Option<ShellExecution>,
}

impl ShellSession {
    pub(super) fn new(process: Arc<ManagedProcess>, secret: String) -> Self {
        Self { process, secret, commands: Commands::new(), current: None }
    }

    fn begin(&mut self, id: &ExecutionId) -> &mut ShellExecution {
        let mark = Mark::new(&self.secret, &id.0);
        let streams = [OutputStream::Stdout, OutputStream::Stderr]
            .map(|stream| MarkedStream::new(stream, &self.process, &mark));
        self.current.insert(ShellExecution {
            mark,
            streams,
            interrupt_wanted: false,
            interrupt: None,
            reports: VecDeque::new(),
        })
    }
}

#[derive(Debug)]
struct ShellExecution {
    mark: Mark,
    streams: [MarkedStream; 2],
    /// SIGINT must reach bash while it runs the code. Earlier, bash would give up the lines that hold the code.
    interrupt_wanted: bool,
    interrupt: Option<SentInterrupt>,
    reports: VecDeque<KernelReport>,
}

/// A SIGINT that bash and its foreground got. A command that bash was just starting may have missed it: its fork still had bash's
/// handler, and bash then waits for a program that was never interrupted.
#[derive(Debug)]
struct SentInterrupt {
    repeats: u32,
    /// Time of the next repeat, for those that missed it.
    repeat_at: Instant,
}

impl SentInterrupt {
    fn now() -> Self {
        Self { repeats: 0, repeat_at: Instant::now() + INTERRUPT_REPEAT }
    }

    /// After a repeat: the next comes later, so that commands that handle an interrupt are left alone soon.
    fn repeated(&self) -> Option<Self> {
        let repeats = self.repeats + 1;
        let repeat_at = Instant::now() + INTERRUPT_REPEAT * 3_u32.pow(repeats);
        (repeats < INTERRUPT_REPEATS).then_some(Self { repeats, repeat_at })
    }
}

#[async_trait]
impl KernelSession for ShellSession {
    async fn execute(&mut self, execution: &Execution) -> Result<(), KernelSessionError> {
        let current = self.begin(&execution.info.id);
        if execution.code.contains('\0') {
            let value = "the code contains a NUL byte, which bash can't read".to_owned();
            let error = ExecutionError { name: "InvalidCode".into(), value, traceback: Vec::new() };
            current.reports.push_back(KernelReport::Over(ExecutionVerdict::Failed(error)));
            return Ok(());
        }
        let mark = current.mark.clone();
        // Only queued here; `next` writes beside reading, so a bash that prints before it reads does not block both sides.
        self.commands.run(&mark, &execution.code);
        Ok(())
    }

    async fn resume(&mut self, execution: &ExecutionId) -> Result<(), KernelSessionError> {
        let current = self.begin(execution);
        for stream in &mut current.streams {
            stream.scanner.assume_begun();
        }
        let mark = current.mark.clone();
        // The end may have been reported to the earlier keeper. If the code still runs, this line waits for its end.
        self.commands.report_again(&mark);
        Ok(())
    }

    async fn next(&mut self) -> Result<KernelReport, KernelSessionError> {
        let Self { process, commands, current, .. } = self;
        let Some(current) = current else { return std::future::pending().await };
        loop {
            if let Some(report) = current.reports.pop_front() {
                return Ok(report);
            }
            if let Some(end) = current.end() {
                return Ok(current.finish(end));
            }
            if current.interrupt_wanted && current.has_begun() {
                return Ok(KernelReport::Nothing);
            }
            let repeat_at = current.interrupt.as_ref().map(|interrupt| interrupt.repeat_at);
            let [stdout, stderr] = &mut current.streams;
            // In random order, so that a flood on one stream does not starve the other. A cancelled write has written
            // nothing, and a cancelled read has taken nothing.
            let (stream, came) = tokio::select! {
                () = write_front(process, commands) => continue,
                () = sleep_until_instant(repeat_at) => return Ok(KernelReport::Nothing),
                came = stdout.read() => (stdout, came),
                came = stderr.read() => (stderr, came),
            };
            match came {
                StreamRead::Bytes(count) => stream.scan(count, &mut current.reports),
                StreamRead::Lost(bytes) => {
                    let text = format!("{bytes} bytes of output came too fast and are left out");
                    current.reports.push_back(KernelReport::Note(text));
                    // A mark may be among the bytes that are no longer kept.
                    stream.scanner.assume_begun();
                    commands.report_again(&current.mark);
                }
            }
        }
    }

    async fn advance(&mut self, host: &dyn ProcessHost) {
        let Some(current) = &mut self.current else { return };
        if current.interrupt_wanted && current.has_begun() {
            current.interrupt_wanted = false;
            // Fails only with the spawner, and then the machine is gone.
            let _ = self.process.signal(host, SIGINT).await;
            current.interrupt = Some(SentInterrupt::now());
        }
        if let Some(sent) = &current.interrupt
            && sent.repeat_at <= Instant::now()
        {
            current.interrupt = sent.repeated();
            self.process.signal_deaf(host, SIGINT).await;
        }
    }

    async fn next_after_exit(&mut self) -> Option<KernelReport> {
        let current = self.current.as_mut()?;
        for stream in &mut current.streams {
            stream.take_last(&mut current.reports);
            if let Some(report) = current.reports.pop_front() {
                return Some(report);
            }
        }
        None
    }

    async fn interrupt(&mut self, host: &dyn ProcessHost) {
        if let Some(current) = &mut self.current {
            current.interrupt_wanted = true;
        }
        self.advance(host).await;
    }

    async fn idle(&mut self) -> KernelSessionError {
        // A follower that does not read would hold back the output of background processes.
        self.current = None;
        loop {
            write_front(&self.process, &mut self.commands).await;
        }
    }
}

/// Writes the next lines as a whole; waits for ever when there are none.
async fn write_front(process: &ManagedProcess, commands: &mut Commands) {
    let Some(write) = commands.front() else { return std::future::pending().await };
    process.write_input(write).await;
    commands.pop();
}

impl ShellExecution {
    fn has_begun(&self) -> bool {
        self.streams.iter().any(|stream| stream.scanner.has_begun())
    }

    /// The end mark, once it has come on both streams.
    fn end(&self) -> Option<EndMark> {
        let [stdout, stderr] = &self.streams;
        stdout.scanner.end().and(stderr.scanner.end())
    }

    fn finish(&mut self, end: EndMark) -> KernelReport {
        let verdict = match end.status {
            Some(0) => ExecutionVerdict::Ok,
            Some(status) => ExecutionVerdict::Failed(ExecutionError {
                name: "NonzeroStatus".into(),
                value: status.to_string(),
                traceback: Vec::new(),
            }),
            None => {
                self.reports.push_back(KernelReport::Note("keeper was restarted before it ran".into()));
                ExecutionVerdict::Lost
            }
        };
        self.reports.push_back(KernelReport::Over(verdict));
        KernelReport::Count(Some(end.count))
    }
}

/// The result of reading a stream.
enum StreamRead {
    /// Bytes in its buffer.
    Bytes(usize),
    /// Bytes that came faster than they were read, and are gone.
    Lost(u64),
}

/// One output of bash, followed for one execution.
#[derive(Debug)]
struct MarkedStream {
    stream: OutputStream,
    follower: Option<Follower>,
    scanner: MarkScanner,
    decoder: TextDecoder,
    buffer: Vec<u8>,
}

impl MarkedStream {
    fn new(stream: OutputStream, process: &ManagedProcess, mark: &Mark) -> Self {
        let capture = process.output(stream).clone();
        let end = capture.end();
        let follower = Some(Follower::new(capture, end));
        let (scanner, decoder) = (MarkScanner::new(mark), TextDecoder::default());
        Self { stream, follower, scanner, decoder, buffer: vec![0; TEXT_BYTES] }
    }

    /// Waits for bytes in the buffer. Waits for ever at the end of the stream: the process's own end is noticed
    /// elsewhere.
    async fn read(&mut self) -> StreamRead {
        loop {
            let Some(follower) = &mut self.follower else { return std::future::pending().await };
            match follower.read(&mut self.buffer) {
                Ok(Piece::Bytes { count, .. }) => return StreamRead::Bytes(count),
                Ok(Piece::Lost(bytes)) => return StreamRead::Lost(bytes),
                Ok(Piece::Nothing) => follower.changed().await,
                Ok(Piece::End) | Err(_) => self.follower = None,
            }
        }
    }

    /// Takes the remaining output after the process ended, a buffer at a time.
    fn take_last(&mut self, reports: &mut VecDeque<KernelReport>) {
        while reports.is_empty() {
            match self.follower.as_mut().map(|follower| follower.read(&mut self.buffer)) {
                Some(Ok(Piece::Bytes { count, .. })) => self.scan(count, reports),
                Some(Ok(Piece::Lost(_))) => {}
                _ => {
                    self.follower = None;
                    let rest = self.scanner.take_rest();
                    self.report(&rest, reports);
                    return;
                }
            }
        }
    }

    fn scan(&mut self, count: usize, reports: &mut VecDeque<KernelReport>) {
        let own = self.scanner.scan(&self.buffer[..count]);
        self.report(&own, reports);
    }

    fn report(&mut self, own: &[u8], reports: &mut VecDeque<KernelReport>) {
        let text = self.decoder.decode(own);
        if !text.is_empty() {
            reports.push_back(KernelReport::Text(self.stream, text));
        }
    }
}
