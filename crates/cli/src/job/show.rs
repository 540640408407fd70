//! Shows a job on the terminal: its output as it arrives, and its times and states in words.

use std::collections::BTreeSet;
use std::io;

use sandyard_api::{EgressDecision, EventBody, JobEvent, JobState, OutputStream};

use super::output::{JobOutput, TerminalText, output_bytes};
use super::show_task::Story;
use crate::ui::{Tone, Ui, clean};

/// Rejected hosts that are reported.
const REFUSED_HOSTS: usize = 50;

/// Prints the events of a job: output to the stream it came from, the rest as remarks on standard error.
pub(crate) struct OutputSink {
    ui: Ui,
    output: JobOutput,
    only: Option<OutputStream>,
    remarks: bool,
    /// Prints the events of a task.
    story: Story,
    /// Rejected hosts that were reported: a browser asks for the same few again and again.
    refused: BTreeSet<String>,
}

impl OutputSink {
    /// Prints output and remarks of a job.
    pub(crate) fn new(ui: Ui, text: TerminalText, job: &str) -> Self {
        Self { remarks: true, ..Self::output_only(ui, text, None, job) }
    }

    /// Prints only the output, of one stream or of both.
    pub(crate) fn output_only(ui: Ui, text: TerminalText, only: Option<OutputStream>, job: &str) -> Self {
        let (output, story) = (JobOutput::new(text), Story::new(ui, job));
        Self { ui, output, only, remarks: false, story, refused: BTreeSet::new() }
    }

    /// Prints the remarks of an event, without output of the job.
    pub(crate) fn show_remarks(&mut self, event: &JobEvent) {
        self.story.before(&event.body);
        match &event.body {
            EventBody::State { question: Some(question), .. } => self.story.question(question),
            EventBody::State { state, reason, .. } => self.state(*state, reason.as_deref()),
            EventBody::Note { text } => self.ui.faint(&format!("· {}", clean(text))),
            EventBody::Truncated { stream } => {
                let name = if *stream == OutputStream::Stdout { "standard output" } else { "standard error" };
                self.ui
                    .warn(&format!("the job's {name} is too long to keep: only its head and tail will be"));
            }
            EventBody::Egress { target, decision, reason, .. } if *decision == EgressDecision::Refused => {
                let reason = reason.as_deref().unwrap_or("not allowed");
                if self.refused.len() >= REFUSED_HOSTS || !self.refused.insert(target.clone()) {
                    return;
                }
                self.ui.warn(&format!("{} could not be reached: {}", clean(target), clean(reason)));
            }
            EventBody::Stdout(_) | EventBody::Stderr(_) | EventBody::Egress { .. } => {}
            told => self.story.tell(told),
        }
    }

    /// Prints an event: output to its stream, remarks to standard error.
    pub(crate) fn show(&mut self, event: &JobEvent) -> io::Result<()> {
        match &event.body {
            EventBody::Stdout(text) if self.only != Some(OutputStream::Stderr) => {
                self.output.stdout(&output_bytes(text))
            }
            EventBody::Stderr(text) if self.only != Some(OutputStream::Stdout) => {
                self.output.stderr(&output_bytes(text))
            }
            _ if self.remarks => {
                self.show_remarks(event);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn state(&self, state: JobState, reason: Option<&str>) {
        // The caller that waits for the end prints it, with the exit code.
        if state.is_terminal() {
            return;
        }
        // A failure is said once: with the end, which follows.
        let reason = reason.filter(|_| state != JobState::Finishing);
        let reason = reason.map(|reason| format!(": {}", clean(reason))).unwrap_or_default();
        self.ui.faint(&format!("· {}{reason}", state.as_str()));
    }
}

/// Returns the tone of a state.
pub(crate) fn state_tone(state: JobState) -> Tone {
    match state {
        JobState::Succeeded => Tone::Good,
        JobState::Failed | JobState::TimedOut => Tone::Bad,
        JobState::Cancelled | JobState::Waiting => Tone::Warning,
        JobState::Queued | JobState::Starting | JobState::Running | JobState::Finishing => Tone::Plain,
    }
}
