//! Where the output of one execution goes: to its caller's record or the job's output, and into a cell of the notebook.

use std::time::Instant;

use sandyard_protocol::{
    ExecutionEnd, ExecutionError, GuestError, GuestErrorCode, KernelEvent, OutputKind, OutputStream,
};

use super::cell::Cell;
use super::jupyter::Bundle;
use super::kernel::{Execution, Finished, Target};
use crate::keeper::Keeper;

/// Takes the output of an execution.
pub(super) struct Sink<'a> {
    keeper: &'a Keeper,
    execution: &'a Execution,
    cell: Cell,
    error: Option<ExecutionError>,
    count: Option<u64>,
    last_output: Instant,
}

impl<'a> Sink<'a> {
    pub(super) fn new(keeper: &'a Keeper, execution: &'a Execution) -> Self {
        let cell = Cell::default();
        Self { keeper, execution, cell, error: None, count: None, last_output: Instant::now() }
    }

    /// When something last came.
    pub(super) fn last_output(&self) -> Instant {
        self.last_output
    }

    /// Output is counted from now.
    pub(super) fn begin(&mut self) {
        self.last_output = Instant::now();
    }

    /// The kernel's own count.
    pub(super) fn set_count(&mut self, count: Option<u64>) {
        self.count = count.or(self.count);
    }

    /// The kernel's own count, if it told.
    pub(super) fn count(&self) -> Option<u64> {
        self.count
    }

    /// Whether it was told why it failed.
    pub(super) fn has_error(&self) -> bool {
        self.error.is_some()
    }

    pub(super) async fn text(&mut self, stream: OutputStream, text: &str) {
        self.last_output = Instant::now();
        self.cell.text(stream, text);
        match &self.execution.target {
            Target::Caller(record) => record.text(stream, text),
            Target::Job => self.job_text(stream, text).await,
        }
    }

    /// As a notebook shows it; a job shows its text.
    pub(super) async fn output(&mut self, kind: OutputKind, bundle: Bundle) {
        self.last_output = Instant::now();
        match &self.execution.target {
            Target::Caller(record) => record.output(kind, &bundle),
            Target::Job => {
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
            Target::Caller(record) => drop(record.event(&KernelEvent::Error(error.clone()))),
            // `sys.exit()` is no failure to be explained; its code is the job's.
            Target::Job if error.name == "SystemExit" => {}
            Target::Job => self.job_text(OutputStream::Stderr, &shown(&error)).await,
        }
        self.error = Some(error);
    }

    pub(super) fn clear(&mut self) {
        self.cell.clear();
        if let Target::Caller(record) = &self.execution.target {
            record.event(&KernelEvent::Clear);
        }
    }

    /// A sentence about the execution, not of it.
    pub(super) fn note(&mut self, text: String) {
        match &self.execution.target {
            Target::Caller(record) => {
                let text = GuestError::new(GuestErrorCode::Internal, text).message;
                record.event(&KernelEvent::Note { text });
            }
            Target::Job => self.keeper.stop_on(self.keeper.events.note(text)),
        }
    }

    /// The cell so far, in a form of the caller's.
    pub(super) fn rendered<T>(&self, render: impl FnOnce(&Cell) -> T) -> T {
        render(&self.cell)
    }

    /// The end, told to everyone who waits for it.
    pub(super) fn finish(self, end: ExecutionEnd) {
        if let Target::Caller(record) = &self.execution.target {
            record.close(&KernelEvent::Done(end.clone()));
        }
        self.execution.finished.send_replace(Some(Finished { end, error: self.error }));
    }

    /// What the job's output has no room for waits until the host took some, as a process would on its pipe.
    async fn job_text(&self, stream: OutputStream, text: &str) {
        let output = self.keeper.job.output(stream);
        if output.append(text.as_bytes()).await.is_err() {
            self.note_lost_output();
        }
    }

    fn note_lost_output(&self) {
        self.keeper.stop_on(self.keeper.events.note("output could not be kept: the spool failed".into()));
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
