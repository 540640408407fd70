//! Watches one job to its end from a terminal on which a person may press Ctrl-C.
//!
//! Ctrl-C asks whether to cancel the job or to leave it running; a second Ctrl-C cancels. Without a terminal, Ctrl-C
//! cancels, as it would end a local program, and SIGTERM leaves the job running.

use sandyard_api::JobState;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use super::{OutputSink, TerminalText};
use crate::client::{ApiClient, Follow, FollowUpdate};
use crate::errors::CommandError;
use crate::ui::Ui;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watched {
    /// The job ended in this state.
    Ended(JobState),
    /// The job was left running, by choice or because of SIGTERM.
    Left,
}

/// Treatment of the job's output by `watch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputDisplay {
    /// Show the output as it arrives.
    Live(TerminalText),
    /// Hide the output: the caller prints the status as JSON at the end.
    Withheld,
}

/// The answer of a person who pressed Ctrl-C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InterruptChoice {
    Cancel,
    Leave,
    Watch,
}

pub(crate) struct Watch<'a> {
    ui: &'a Ui,
    client: &'a ApiClient,
    id: &'a str,
    output: OutputDisplay,
    /// Describes the consequence of leaving the job; shown with the question.
    leaving: &'a str,
    question: Option<oneshot::Receiver<InterruptChoice>>,
}

impl<'a> Watch<'a> {
    pub(crate) fn new(
        ui: &'a Ui,
        client: &'a ApiClient,
        id: &'a str,
        output: OutputDisplay,
        leaving: &'a str,
    ) -> Self {
        Self { ui, client, id, output, leaving, question: None }
    }

    /// Returns when the job has ended or was left running.
    pub(crate) async fn run(mut self) -> Result<Watched, CommandError> {
        let mut interrupts = signal(SignalKind::interrupt())?;
        let mut terminations = signal(SignalKind::terminate())?;
        let mut events = Follow::new(self.client.clone(), self.id);
        let text = match self.output {
            OutputDisplay::Live(text) => text,
            OutputDisplay::Withheld => TerminalText::Clean,
        };
        let mut sink = OutputSink::new(*self.ui, text);
        loop {
            // Events, keys and answers must not wait for each other. Cancelling `next` loses no event, and a
            // signal that arrives meanwhile stays pending. The question is answered on a thread of its own:
            // events are shown while the person decides.
            tokio::select! {
                followed = events.next() => match followed? {
                    FollowUpdate::Event(event) if self.output != OutputDisplay::Withheld => sink.show(&event)?,
                    FollowUpdate::Event(event) => sink.show_remarks(&event),
                    FollowUpdate::Lost => self.ui.warn("the connection to the server is lost; the job continues, reconnecting"),
                    FollowUpdate::Back => self.ui.note("the server is back"),
                    FollowUpdate::Ended(state) => return Ok(Watched::Ended(state)),
                },
                () = pressed(&mut interrupts) => self.interrupted().await?,
                () = pressed(&mut terminations) => return Ok(Watched::Left),
                wish = answered(&mut self.question) => match wish {
                    InterruptChoice::Cancel => self.cancel().await?,
                    InterruptChoice::Leave => return Ok(Watched::Left),
                    InterruptChoice::Watch => self.ui.note("watching on"),
                },
            }
        }
    }

    /// The first Ctrl-C asks; the second one cancels the job.
    async fn interrupted(&mut self) -> Result<(), CommandError> {
        if self.question.is_some() || !self.ui.is_interactive() {
            self.question = None;
            return self.cancel().await;
        }
        let (sender, receiver) = oneshot::channel();
        self.question = Some(receiver);
        let ui = *self.ui;
        let text = format!("\n{}\n[c]ancel the job, [l]eave it running, or [w]atch on?", self.leaving);
        // A read of the terminal can't be cancelled, so it gets a thread that ends with the process.
        std::thread::spawn(move || {
            let wish = match ui.ask(&text) {
                Some('c') => InterruptChoice::Cancel,
                Some('l') | None => InterruptChoice::Leave,
                Some(_) => InterruptChoice::Watch,
            };
            // Nobody listens if a second Ctrl-C has answered.
            let _ = sender.send(wish);
        });
        Ok(())
    }

    async fn cancel(&self) -> Result<(), CommandError> {
        self.ui.note("cancelling");
        Ok(self.client.cancel(self.id).await?)
    }
}

async fn pressed(signals: &mut Signal) {
    // The stream of a signal never ends.
    if signals.recv().await.is_none() {
        std::future::pending::<()>().await;
    }
}

/// Returns the answer to the question; never returns while there is no question.
async fn answered(question: &mut Option<oneshot::Receiver<InterruptChoice>>) -> InterruptChoice {
    match question {
        Some(receiver) => {
            let wish = receiver.await.unwrap_or(InterruptChoice::Watch);
            *question = None;
            wish
        }
        None => std::future::pending().await,
    }
}
