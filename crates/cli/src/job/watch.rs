//! Watching one job to its end from a terminal, with a person who may press Ctrl-C.
//!
//! Ctrl-C asks whether to cancel the job or to leave it; a second one cancels. Where nobody can be asked, Ctrl-C
//! cancels, as it would end a local program, and SIGTERM leaves the job running.

use sandyard_api::JobState;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use super::OutputSink;
use crate::client::{Client, Follow, Followed};
use crate::errors::CommandError;
use crate::ui::Ui;

/// How watching ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watched {
    /// The job ended in this state.
    Ended(JobState),
    /// The person, or whoever sent SIGTERM, leaves it running.
    Left,
}

/// What is done with the job's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    /// Shown as it comes.
    Live,
    /// Not shown: the caller prints the status as JSON at the end.
    Withheld,
}

/// What a person who pressed Ctrl-C wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InterruptChoice {
    Cancel,
    Leave,
    Watch,
}

/// Watches a job.
pub(crate) struct Watch<'a> {
    ui: &'a Ui,
    client: &'a Client,
    id: &'a str,
    output: Output,
    /// What leaving the job means; shown with the question.
    leaving: &'a str,
    question: Option<oneshot::Receiver<InterruptChoice>>,
}

impl<'a> Watch<'a> {
    pub(crate) fn new(ui: &'a Ui, client: &'a Client, id: &'a str, output: Output, leaving: &'a str) -> Self {
        Self { ui, client, id, output, leaving, question: None }
    }

    /// Returns when the job has ended or is left.
    pub(crate) async fn run(mut self) -> Result<Watched, CommandError> {
        let mut interrupts = signal(SignalKind::interrupt())?;
        let mut terminations = signal(SignalKind::terminate())?;
        let mut events = Follow::new(self.client.clone(), self.id);
        let mut sink = OutputSink::new(*self.ui);
        loop {
            tokio::select! {
                followed = events.next() => match followed? {
                    Followed::Event(event) if self.output == Output::Live => sink.show(&event)?,
                    Followed::Event(event) => sink.show_remarks(&event),
                    Followed::Lost => self.ui.warn("the server is away; the job goes on, waiting for the server"),
                    Followed::Back => self.ui.note("the server is back"),
                    Followed::Ended(state) => return Ok(Watched::Ended(state)),
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

    /// The first Ctrl-C asks, the second one answers for the person.
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

/// The answer, once there is a question and somebody has answered it.
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
