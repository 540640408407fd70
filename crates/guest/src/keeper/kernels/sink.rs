//! The destination of one execution's output: its caller's record or the job's output, and a cell of the notebook.

use std::time::Instant;

use sandyard_protocol::{
    ExecutionEnd, ExecutionError, GuestError, GuestErrorCode, KernelEvent, OutputKind, OutputStream,
};

use super::cell::NotebookCell;
use super::context::KernelContext;
use super::jupyter::MimeBundle;
use super::kernel::{Execution, ExecutionTarget, FinishedExecution};

/// Takes the output of an execution.
pub(super) struct ExecutionSink<'a> {
    context: &'a KernelContext,
    execution: &'a Execution,
    cell: NotebookCell,
    error: Option<ExecutionError>,
    count: Option<u64>,
    last_output: Instant,
}

impl<'a> ExecutionSink<'a> {
    pub(super) fn new(context: &'a KernelContext, execution: &'a Execution) -> Self {
        let cell = NotebookCell::default();
        Self { context, execution, cell, error: None, count: None, last_output: Instant::now() }
    }

    /// The time of the last output.
    pub(super) fn last_output(&self) -> Instant {
        self.last_output
    }

    /// Output is counted from now.
    pub(super) fn begin(&mut self) {
        self.last_output = Instant::now();
    }

    /// Stores the kernel's own count, if it reported one.
    pub(super) fn set_count(&mut self, count: Option<u64>) {
        self.count = count.or(self.count);
    }

    /// The kernel's own count, if it reported one.
    pub(super) fn count(&self) -> Option<u64> {
        self.count
    }

    /// True if the kernel reported why the code failed.
    pub(super) fn has_error(&self) -> bool {
        self.error.is_some()
    }

    pub(super) async fn text(&mut self, stream: OutputStream, text: &str) {
        self.last_output = Instant::now();
        self.cell.text(stream, text);
        match &self.execution.target {
            ExecutionTarget::Caller(record) => record.text(stream, text),
            ExecutionTarget::Job => self.job_text(stream, text).await,
        }
    }

    /// Stores a rich output. A job shows its plain text.
    pub(super) async fn output(&mut self, kind: OutputKind, bundle: MimeBundle) {
        self.last_output = Instant::now();
        match &self.execution.target {
            ExecutionTarget::Caller(record) => record.output(kind, &bundle),
            ExecutionTarget::Job => {
                if let Some(text) = bundle.text() {
                    self.job_text(OutputStream::Stdout, &format!("{text}\n")).await;
                }
            }
        }
        self.cell.output(kind, self.count, bundle);
    }

    pub(super) async fn error(&mut self, error: ExecutionError) {
        self.last_output = Instant::now();
        self.cell.error(&error);
        match &self.execution.target {
            ExecutionTarget::Caller(record) => drop(record.event(&KernelEvent::Error(error.clone()))),
            // `sys.exit()` is not a failure to explain; its code becomes the job's exit code.
            ExecutionTarget::Job if error.name == "SystemExit" => {}
            ExecutionTarget::Job => self.job_text(OutputStream::Stderr, &shown(&error)).await,
        }
        self.error = Some(error);
    }

    pub(super) fn clear(&mut self) {
        self.cell.clear();
        if let ExecutionTarget::Caller(record) = &self.execution.target {
            record.event(&KernelEvent::Clear);
        }
    }

    /// Stores a sentence about the execution that is not its output.
    pub(super) fn note(&mut self, text: String) {
        match &self.execution.target {
            ExecutionTarget::Caller(record) => {
                let text = GuestError::new(GuestErrorCode::Internal, text).message;
                record.event(&KernelEvent::Note { text });
            }
            ExecutionTarget::Job => self.context.note(text),
        }
    }

    /// The cell so far, in a form of the caller's.
    pub(super) fn rendered<T>(&self, render: impl FnOnce(&NotebookCell) -> T) -> T {
        render(&self.cell)
    }

    /// Ends the execution and wakes everyone who waits for it.
    pub(super) fn finish(self, end: ExecutionEnd) {
        if let ExecutionTarget::Caller(record) = &self.execution.target {
            record.close(&KernelEvent::Done(end.clone()));
        }
        self.execution.finished.send_replace(Some(FinishedExecution { end, error: self.error }));
    }

    /// Waits for room until the host has taken some output, as a process would on its pipe.
    async fn job_text(&self, stream: OutputStream, text: &str) {
        let output = self.context.job.output(stream);
        if output.append(text.as_bytes()).await.is_err() {
            self.note_lost_output();
        }
    }

    fn note_lost_output(&self) {
        self.context.note("output could not be kept: the spool failed".into());
    }
}

/// An exception as it goes to standard error.
fn shown(error: &ExecutionError) -> String {
    if error.traceback.is_empty() {
        return format!("{}: {}\n", error.name, error.value);
    }
    let mut text = error.traceback.join("\n");
    text.push('\n');
    text
}
