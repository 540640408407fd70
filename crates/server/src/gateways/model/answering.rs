//! An answer on its way to the sandbox: passed on as it comes, told to those who watch, kept before it is complete.

use sandyard_pipe::FrameSender;
use sandyard_protocol::{ModelCall, ModelEvent};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

use super::account::Account;
use super::client::Ended;
use super::recording::gather;
use super::{Gateway, Gone, KeptAnswer, Outcome, Told, Words, ledger, send};

impl Gateway {
    /// Keeps an answer before the sandbox hears that it is complete; returns the last event.
    pub(super) async fn keep<S>(
        &self,
        call: &ModelCall,
        ended: Ended,
        mut account: Account<'_>,
        mut said: Vec<ModelEvent>,
        sender: &mut FrameSender<S>,
    ) -> Result<ModelEvent, Gone>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let (usage, cost) = account.answered(ended.usage);
        let answer = ledger::answer(account.model.name(), &said, ended.stop, usage);
        let number = self.ledger.keep(answer, self.budget.spent(), cost).await.map_err(|_| Gone)?;
        account.number = number;
        account.tell(Outcome::Answered { usage, cost }).await;
        let done = ModelEvent::Done { stop: ended.stop, usage };
        said.push(done.clone());
        self.record(call, said).await;
        send(sender, &ModelEvent::Kept { number }).await?;
        Ok(done)
    }

    pub(super) async fn pass_on<S>(
        &self,
        mut heard: mpsc::Receiver<ModelEvent>,
        sender: &mut FrameSender<S>,
        account: &mut Account<'_>,
        said: &mut Vec<ModelEvent>,
    ) -> Result<(), Gone>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut words = Words::new(account.number);
        loop {
            let event = tokio::select! {
                event = heard.recv() => event,
                () = words.due() => {
                    self.tell(&mut words).await;
                    continue;
                }
            };
            let Some(event) = event else { break };
            account.with(|reservation| reservation.received(bytes_of(&event)));
            if let ModelEvent::Text { text } = &event {
                words.add(text);
            }
            send(sender, &event).await?;
            gather(said, event);
        }
        self.tell(&mut words).await;
        Ok(())
    }

    async fn tell(&self, words: &mut Words) {
        while let Some(run) = words.take() {
            // Nobody listens once the job is over.
            let _ = self.told.send(Told::Words(run)).await;
        }
    }
}

/// An answer that was kept before: the loop died before it heard all of it.
pub(super) async fn repeat<S>(
    number: u64,
    answer: KeptAnswer,
    sender: &mut FrameSender<S>,
) -> Result<ModelEvent, Gone>
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
