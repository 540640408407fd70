//! A session: the desk, the conversation that its journal tells, and the loop over what is due.
//!
//! open → read the journal → (answer | steps | reply)* → end. What is due follows from the journal alone, so a loop that dies
//! anywhere is followed by one that goes on there. Every entry is durable on the host before the next thing is done.

use std::path::PathBuf;
use std::sync::Arc;

use sandyard_protocol::{DeskRefusal, JournalEntry, JournalRow, ToolSpec};

use crate::conversation::{Conversation, Due};
use crate::desk::{Desk, DeskError};
use crate::keeper::Keeper;
use crate::tokens::Correction;
use crate::tools::shell::Places;
use crate::tools::{self, Context};
use crate::window::Window;
use crate::{step, turn};

/// How a loop ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The task is done.
    Finished,
    /// The task was given up, and the journal says why.
    GaveUp,
    /// The journal went on without this loop: another must begin from it.
    Again,
}

/// Works until the task is over.
pub async fn run(socket: PathBuf) -> End {
    let keeper = Keeper::at(socket);
    let desk = Desk::open(keeper.clone()).await;
    let mut session = Session {
        window: Window::of(&desk.facts().model),
        desk,
        conversation: Conversation::default(),
        keeper,
        places: Arc::default(),
        tools: tools::specs(),
        correction: Correction::default(),
    };
    match session.work().await {
        Ok(end) => end,
        Err(DeskError::Overtaken) => End::Again,
        Err(DeskError::Refused { code: DeskRefusal::JournalFull, .. }) => {
            let reason = "the journal of this job is full".to_owned();
            match session.commit(JournalEntry::GaveUp { reason }).await {
                Ok(()) => End::GaveUp,
                Err(_) => End::Again,
            }
        }
        // The host ends the job, and this process with it.
        Err(DeskError::Refused { .. }) => End::GaveUp,
    }
}

/// All that a loop holds.
pub(crate) struct Session {
    pub(crate) desk: Desk,
    pub(crate) conversation: Conversation,
    pub(crate) keeper: Keeper,
    pub(crate) places: Arc<Places>,
    pub(crate) window: Window,
    pub(crate) tools: Vec<ToolSpec>,
    pub(crate) correction: Correction,
}

impl Session {
    async fn work(&mut self) -> Result<End, DeskError> {
        let Self { desk, conversation, .. } = self;
        desk.replay(|row| conversation.apply(row)).await?;
        loop {
            match self.conversation.due() {
                Due::Answer => turn::take(self).await?,
                Due::Steps => step::run(self).await?,
                Due::Reply => {
                    let rows = self.desk.wait().await?;
                    self.apply(rows);
                }
                Due::Finished => return Ok(End::Finished),
                Due::GivenUp => return Ok(End::GaveUp),
            }
        }
    }

    /// Writes an entry, and takes it up once it is durable.
    pub(crate) async fn commit(&mut self, entry: JournalEntry) -> Result<(), DeskError> {
        let rows = self.desk.append(entry).await?;
        self.apply(rows);
        Ok(())
    }

    pub(crate) fn apply(&mut self, rows: Vec<JournalRow>) {
        for row in rows {
            self.conversation.apply(row);
        }
    }

    /// What a tool works with in a step.
    pub(crate) fn context(&self, step: u64) -> Context {
        Context { keeper: self.keeper.clone(), step, places: Arc::clone(&self.places) }
    }
}
