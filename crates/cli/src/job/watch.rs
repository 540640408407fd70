//! Watches one job to its end from a terminal at which a person may answer questions or press Ctrl-C.
//!
//! Ctrl-C asks whether to cancel the job or to leave it running; a second Ctrl-C cancels. A question of a task is a prompt, and
//! what is typed is the answer. Without a terminal, Ctrl-C cancels, as it would end a local program, SIGTERM leaves the job
//! running, and a question waits for `sandyard reply` or ends the watch.

use sandyard_api::{EventBody, JobEvent, JobState, ReplyRequest};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use super::{OutputSink, TerminalText};
use crate::client::{ApiClient, Follow, FollowUpdate};
use crate::errors::CommandError;
use crate::ui::{Tone, Ui, short_id};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watched {
    /// The job ended in this state.
    Ended(JobState),
    /// The job was left running, by choice or because of SIGTERM.
    Left,
    /// The task asked something, and that was to be a failure. It was cancelled.
    Asked,
}

/// Treatment of the job's output by `watch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputDisplay {
    /// Show the output as it arrives.
    Live(TerminalText),
    /// Hide the output: the caller prints the status as JSON at the end.
    Withheld,
}

/// What happens when a task asks something and nobody is at a terminal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OnQuestion {
    /// Cancel the task and exit with 9
    Fail,
    /// Wait for `sandyard reply`
    #[default]
    Wait,
}

/// What is true of a job when its watcher leaves.
#[derive(Debug)]
pub(crate) struct WatchNotes {
    leaving: String,
    left: String,
}

impl WatchNotes {
    /// The job is a server's, which goes on.
    pub(crate) fn at_server(id: &str) -> Self {
        let id = short_id(id);
        Self {
            leaving: format!(
                "If you leave, the job goes on at the server; `sandyard attach {id}` shows it again."
            ),
            left: format!("the job goes on; `sandyard attach {id}` shows it again"),
        }
    }

    /// Tells a person who left how to come back.
    pub(crate) fn left(&self) -> &str {
        &self.left
    }

    /// This command is the job's server.
    pub(crate) fn serving(id: &str, data: &str) -> Self {
        let id = short_id(id);
        let data = if data.is_empty() { String::new() } else { format!(" --data {data}") };
        Self {
            leaving: format!(
                "This command is the job's server. If you leave, the job goes on in its sandbox, but nobody takes its output or \
                 answers its calls until a server runs again: `sandyard up{data}`, then `sandyard attach {id}`."
            ),
            left: format!(
                "the job goes on in its sandbox; `sandyard up{data}` serves it again, and `sandyard attach {id}` shows it"
            ),
        }
    }
}

/// What a typed line answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PromptPurpose {
    /// What to do after Ctrl-C.
    Interrupt,
    /// The question of the task.
    Question,
}

/// A line that a person was asked for; `None` at the end of input.
type TypedLine = oneshot::Receiver<Option<String>>;

pub(crate) struct Watch<'a> {
    ui: &'a Ui,
    client: &'a ApiClient,
    id: &'a str,
    output: OutputDisplay,
    notes: &'a WatchNotes,
    on_question: OnQuestion,
    /// The line that is being typed, and what it answers. A read of the terminal can't be cancelled, so there is one at a time.
    typing: Option<(PromptPurpose, TypedLine)>,
    /// True while the task waits for an answer.
    asked: bool,
    from: WatchFrom,
}

/// Where a watch begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum WatchFrom {
    /// With the first event of the job
    #[default]
    Start,
    /// With what happens from now on
    Now,
}

impl<'a> Watch<'a> {
    pub(crate) fn new(
        ui: &'a Ui,
        client: &'a ApiClient,
        id: &'a str,
        output: OutputDisplay,
        notes: &'a WatchNotes,
        on_question: OnQuestion,
    ) -> Self {
        let from = WatchFrom::Start;
        Self { ui, client, id, output, notes, on_question, typing: None, asked: false, from }
    }

    /// Begins elsewhere than at the first event.
    pub(crate) fn from(self, from: WatchFrom) -> Self {
        Self { from, ..self }
    }

    /// Returns when the job has ended or was left running.
    pub(crate) async fn run(mut self) -> Result<Watched, CommandError> {
        let mut interrupts = signal(SignalKind::interrupt())?;
        let mut terminations = signal(SignalKind::terminate())?;
        let mut events = match self.from {
            WatchFrom::Start => Follow::new(self.client.clone(), self.id),
            WatchFrom::Now => Follow::from_now(self.client.clone(), self.id),
        };
        let text = match self.output {
            OutputDisplay::Live(text) => text,
            OutputDisplay::Withheld => TerminalText::Clean,
        };
        let mut sink = OutputSink::new(*self.ui, text, self.id);
        loop {
            // Events, keys and answers must not wait for each other. Cancelling `next` loses no event, and a
            // signal that arrives meanwhile stays pending. Lines are typed on a thread of their own: events are shown while the
            // person thinks.
            tokio::select! {
                followed = events.next() => match followed? {
                    FollowUpdate::Event(event) => {
                        self.show(&mut sink, &event)?;
                        if self.notice_question(&event).await? {
                            return Ok(Watched::Asked);
                        }
                    }
                    FollowUpdate::Lost => self.ui.warn("the connection to the server is lost; the job continues, reconnecting"),
                    FollowUpdate::Back => self.ui.note("the server is back"),
                    FollowUpdate::Ended(state) => return Ok(Watched::Ended(state)),
                },
                () = pressed(&mut interrupts) => self.interrupted().await?,
                () = pressed(&mut terminations) => return Ok(Watched::Left),
                (purpose, line) = typed(&mut self.typing) => {
                    if self.answered(purpose, line).await? {
                        return Ok(Watched::Left);
                    }
                }
            }
        }
    }

    fn show(&self, sink: &mut OutputSink, event: &JobEvent) -> Result<(), CommandError> {
        match self.output {
            OutputDisplay::Live(_) => Ok(sink.show(event)?),
            OutputDisplay::Withheld => {
                sink.show_remarks(event);
                Ok(())
            }
        }
    }

    /// Prompts for the answer to a question. True if a question ends the watch.
    async fn notice_question(&mut self, event: &JobEvent) -> Result<bool, CommandError> {
        let EventBody::State { state, question, .. } = &event.body else { return Ok(false) };
        let asks = *state == JobState::Waiting && question.is_some();
        // A question of a story that is told again may be answered already.
        self.asked = asks && self.client.status(self.id).await?.state == JobState::Waiting;
        if !self.asked {
            return Ok(false);
        }
        if self.ui.is_interactive() {
            self.prompt(PromptPurpose::Question, "your answer>");
        } else if self.on_question == OnQuestion::Fail {
            self.ui.note("nobody can be asked here; cancelling");
            self.client.cancel(self.id).await?;
            return Ok(true);
        }
        Ok(false)
    }

    /// The first Ctrl-C asks; the second one cancels the job.
    async fn interrupted(&mut self) -> Result<(), CommandError> {
        let asked = matches!(self.typing, Some((PromptPurpose::Interrupt, _)));
        if asked || !self.ui.is_interactive() {
            return self.cancel().await;
        }
        let question =
            format!("\n{}\n[c]ancel the job, [l]eave it running, or [w]atch on?", self.notes.leaving);
        self.prompt(PromptPurpose::Interrupt, &question);
        Ok(())
    }

    /// Asks for a line. One that is already being typed then answers this.
    fn prompt(&mut self, purpose: PromptPurpose, text: &str) {
        self.ui.prompt(text);
        self.typing = match self.typing.take() {
            Some((_, line)) => Some((purpose, line)),
            None => Some((purpose, read_line(*self.ui))),
        };
    }

    /// Does what a typed line asks for. True if the job is to be left.
    async fn answered(&mut self, purpose: PromptPurpose, line: Option<String>) -> Result<bool, CommandError> {
        match (purpose, line) {
            (PromptPurpose::Interrupt, None) => return Ok(true),
            (PromptPurpose::Interrupt, Some(line)) => match line.trim().chars().next() {
                Some('c' | 'C') => self.cancel().await?,
                Some('l' | 'L') => return Ok(true),
                _ => {
                    self.ui.note("watching on");
                    if self.asked {
                        self.prompt(PromptPurpose::Question, "your answer>");
                    }
                }
            },
            // The end of input, not an answer: whoever answers does so elsewhere.
            (PromptPurpose::Question, None) => {
                self.ui.note(&format!("answer with `sandyard reply {} TEXT`", short_id(self.id)));
            }
            (PromptPurpose::Question, Some(line)) if line.trim().is_empty() && self.asked => {
                self.prompt(PromptPurpose::Question, "your answer>");
            }
            (PromptPurpose::Question, Some(line)) if line.trim().is_empty() => {}
            (PromptPurpose::Question, Some(line)) => self.reply(line.trim_end()).await?,
        }
        Ok(false)
    }

    /// Sends what was typed. An answer that comes too late is a message.
    async fn reply(&mut self, text: &str) -> Result<(), CommandError> {
        let body = ReplyRequest { text: text.to_owned(), budget: None };
        match self.client.reply(self.id, &body).await {
            Ok(()) => Ok(()),
            Err(error) if error.exit() == crate::exit_codes::CommandExit::Refused => {
                self.ui.toned(&format!("that was not taken: {error}"), Tone::Warning);
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn cancel(&self) -> Result<(), CommandError> {
        self.ui.note("cancelling");
        Ok(self.client.cancel(self.id).await?)
    }
}

/// Reads a line on a thread that ends with the process.
fn read_line(ui: Ui) -> TypedLine {
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || {
        // Nobody listens if the job has ended meanwhile.
        let _ = sender.send(ui.read_line());
    });
    receiver
}

async fn pressed(signals: &mut Signal) {
    // The stream of a signal never ends.
    if signals.recv().await.is_none() {
        std::future::pending::<()>().await;
    }
}

/// Returns the next typed line and what it answers; never returns while nobody is asked.
async fn typed(typing: &mut Option<(PromptPurpose, TypedLine)>) -> (PromptPurpose, Option<String>) {
    match typing {
        Some((purpose, line)) => {
            let typed = (*purpose, line.await.unwrap_or_default());
            *typing = None;
            typed
        }
        None => std::future::pending().await,
    }
}
