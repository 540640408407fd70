//! The state of one run of the loop: the journal on the host, the conversation read from it, and the model's window.
//!
//! `turn` and `step` work on this state; `session` decides which of them is due.

use std::path::PathBuf;
use std::sync::Arc;

use sandyard_protocol::{JournalEntry, JournalRow, ToolSpec};

use crate::conversation::Conversation;
use crate::journal::{JournalClient, JournalError, OutcomeText};
use crate::keeper::KeeperClient;
use crate::positions::OutputPositions;
use crate::tokens::Correction;
use crate::window::Window;

pub(crate) struct SessionState {
    pub(crate) journal: JournalClient,
    pub(crate) conversation: Conversation,
    pub(crate) keeper: KeeperClient,
    pub(crate) positions: Arc<OutputPositions>,
    pub(crate) window: Window,
    pub(crate) tools: Vec<ToolSpec>,
    pub(crate) correction: Correction,
}

impl SessionState {
    /// Opens the journal, however long the host is away. The conversation is empty until the journal is replayed.
    pub(crate) async fn open(socket: PathBuf, tools: Vec<ToolSpec>) -> Self {
        let keeper = KeeperClient::at(socket);
        let journal = JournalClient::open(keeper.clone()).await;
        Self {
            window: Window::of(&journal.facts().model),
            journal,
            conversation: Conversation::default(),
            keeper,
            positions: Arc::default(),
            tools,
            correction: Correction::default(),
        }
    }

    /// Reads the journal into the conversation.
    pub(crate) async fn replay(&mut self) -> Result<(), JournalError> {
        let Self { journal, conversation, .. } = self;
        journal.replay(|row| conversation.apply(row)).await
    }

    /// Writes an entry, and applies it once it is durable. A crash in between loses nothing: the next loop reads the entry.
    pub(crate) async fn commit(&mut self, entry: JournalEntry) -> Result<(), JournalError> {
        self.commit_with(entry, Vec::new()).await
    }

    /// The same with texts that are kept behind the entry.
    pub(crate) async fn commit_with(
        &mut self,
        entry: JournalEntry,
        kept: Vec<OutcomeText>,
    ) -> Result<(), JournalError> {
        let rows = self.journal.append(entry, kept).await?;
        self.apply(rows);
        Ok(())
    }

    /// Applies entries to the conversation, in order.
    pub(crate) fn apply(&mut self, rows: Vec<JournalRow>) {
        for row in rows {
            self.conversation.apply(row);
        }
    }
}
