//! An answer on its way to the sandbox: passed on as it arrives, reported to those who watch, stored before it is complete.

use sandyard_pipe::FrameSender;
use sandyard_protocol::{ModelCall, ModelEvent};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::provider::{AnswerEnd, gather};
use super::settlement::CallSettlement;
use super::{
    AnswerText, KeptAnswer, ModelCallEnd, ModelGateway, ModelReport, SandboxGone, WORDS_TIMEOUT, ledger, send,
};

impl ModelGateway {
    /// Stores an answer before the sandbox learns that it is complete. Returns the last event.
    pub(super) async fn keep<S>(
        &self,
        call: &ModelCall,
        end: AnswerEnd,
        mut settlement: CallSettlement<'_>,
        mut received: Vec<ModelEvent>,
        sender: &mut FrameSender<S>,
    ) -> Result<ModelEvent, SandboxGone>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        // Charged first, because the total is stored in one commit with the answer.
        let (usage, cost) = settlement.answered(end.usage);
        let answer = ledger::answer(settlement.model.name(), &received, end.stop, usage);
        if !call.packing.is_empty() {
            self.ledger.keep_packing(&call.packing).await.map_err(|_| SandboxGone)?;
        }
        // Stored before `Kept` and `Done` are sent: after a crash the agent asks again, and the answer is not paid twice.
        let number = self.ledger.keep(answer, self.budget.spent(), cost).await.map_err(|_| SandboxGone)?;
        settlement.number = number;
        settlement.report(ModelCallEnd::Answered { usage, cost }).await;
        // The sandbox acts as soon as it knows that the answer is complete, and its deeds are committed by another way: who
        // watches must read the words that announce them first.
        self.words_are_told().await;
        let done = ModelEvent::Done { stop: end.stop, usage };
        received.push(done.clone());
        self.record(call, received).await;
        send(sender, &ModelEvent::Kept { number }).await?;
        Ok(done)
    }

    /// Passes the events of a provider to the sandbox, and their text to the job's events, until the provider is done.
    pub(super) async fn pass_on<S>(
        &self,
        mut events: mpsc::Receiver<ModelEvent>,
        sender: &mut FrameSender<S>,
        settlement: &mut CallSettlement<'_>,
        received: &mut Vec<ModelEvent>,
    ) -> Result<(), SandboxGone>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut text = AnswerText::new(settlement.number);
        loop {
            let event = tokio::select! {
                event = events.recv() => event,
                // Events of the provider, and text that waits to be reported. `recv` loses nothing when it is cancelled. `due`
                // waits only while there is text, and reporting takes all of it, so this branch can't starve the other.
                () = text.due() => {
                    self.report_text(&mut text).await;
                    continue;
                }
            };
            let Some(event) = event else { break };
            // Counted before it is passed on: a sandbox that goes away pays for the text that it caused.
            settlement.with(|reservation| reservation.received(bytes_of(&event)));
            if let ModelEvent::Text { text: more } = &event {
                text.add(more);
            }
            send(sender, &event).await?;
            gather(received, event);
        }
        self.report_text(&mut text).await;
        Ok(())
    }

    /// Waits until everything that was reported is committed.
    async fn words_are_told(&self) {
        let (sender, told) = oneshot::channel();
        if self.reports.send(ModelReport::Settled(sender)).await.is_ok() {
            // An error is the drop of the sender, which is the news.
            let _ = timeout(WORDS_TIMEOUT, told).await;
        }
    }

    async fn report_text(&self, text: &mut AnswerText) {
        while let Some(run) = text.take() {
            // The receiver is gone once the job is over.
            let _ = self.reports.send(ModelReport::Text(run)).await;
        }
    }
}

/// Sends a stored answer again: the agent died before it had read all of it.
pub(super) async fn repeat<S>(
    number: u64,
    answer: KeptAnswer,
    sender: &mut FrameSender<S>,
) -> Result<ModelEvent, SandboxGone>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    if !answer.text.is_empty() {
        send(sender, &ModelEvent::Text { text: answer.text }).await?;
    }
    for call in answer.calls {
        send(sender, &ModelEvent::Call(call)).await?;
    }
    send(sender, &ModelEvent::Kept { number }).await?;
    Ok(ModelEvent::Done { stop: answer.stop, usage: answer.usage })
}

fn bytes_of(event: &ModelEvent) -> usize {
    match event {
        ModelEvent::Text { text } => text.len(),
        ModelEvent::Call(call) => call.name.len() + call.arguments.len(),
        ModelEvent::Kept { .. } | ModelEvent::Done { .. } | ModelEvent::Failed(_) => 0,
    }
}
