//! A session: opens the journal, replays it, and carries out the next action until the task is over.
//!
//! open → replay → (answer | steps | reply)* → end. The next action follows from the journal alone, so a loop that dies anywhere
//! is followed by one that continues there. Every entry is durable on the host before the next action starts.

use std::path::PathBuf;

use sandyard_protocol::{DeskRefusal, JournalEntry};

use crate::conversation::Due;
use crate::journal::JournalError;
use crate::state::SessionState;
use crate::{step, tools, turn};

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentEnd {
    /// The task is done.
    Finished,
    /// The task was given up, and the journal says why.
    GaveUp,
    /// The journal continued without this loop: another one must start from it.
    Again,
}

/// Runs the loop until the task is over. `socket` is keeper's, in the same machine.
pub async fn run(socket: PathBuf) -> AgentEnd {
    let mut state = SessionState::open(socket, tools::specs()).await;
    match work(&mut state).await {
        Ok(end) => end,
        Err(JournalError::Overtaken) => AgentEnd::Again,
        Err(JournalError::Refused { code: DeskRefusal::JournalFull, .. }) => {
            let reason = "the journal of this job is full".to_owned();
            // A full journal still takes this entry.
            match state.commit(JournalEntry::GaveUp { reason }).await {
                Ok(()) => AgentEnd::GaveUp,
                Err(_) => AgentEnd::Again,
            }
        }
        // The host ends the job, and this process with it.
        Err(JournalError::Refused { .. }) => AgentEnd::GaveUp,
    }
}

async fn work(state: &mut SessionState) -> Result<AgentEnd, JournalError> {
    state.replay().await?;
    loop {
        match state.conversation.due() {
            Due::Answer => turn::take(state).await?,
            Due::Steps => step::run(state).await?,
            Due::Reply => {
                let rows = state.journal.wait_for_reply().await?;
                state.apply(rows);
            }
            Due::Finished => return Ok(AgentEnd::Finished),
            Due::GivenUp => return Ok(AgentEnd::GaveUp),
        }
    }
}
