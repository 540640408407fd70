//! The client of the journal service on the host. It reconnects whenever the connection is lost, loses no entry and appends none
//! twice.
//!
//! Every entry reaches the caller once and in order: those that the journal had when it was opened, those that a person adds
//! at any time, and those that the loop itself appends, once they are durable.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::FutureExt as _;
use sandyard_pipe::FrameError;
use sandyard_protocol::limits::{DATA_BYTES, JOURNAL_READ_ENTRIES, KEPT_TEXT_BYTES, KEPT_TEXTS};
use sandyard_protocol::{
    DeskRefusal, DeskReply, DeskRequest, JournalEntry, JournalPassages, JournalQuestion, JournalRow,
    KeptText, TaskFacts, TextOrigin,
};

use crate::keeper::{KeeperClient, KeeperStream};

/// Delay before the first attempt to reconnect; it doubles with every attempt.
const FIRST_RETRY: Duration = Duration::from_millis(50);
/// The longest delay between two attempts: a host that comes back is found within it.
const LONGEST_RETRY: Duration = Duration::from_secs(5);

/// Why the journal can't be written any more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JournalError {
    /// The host rejected an entry.
    #[error("the host refused an entry of the journal: {message}")]
    Refused { code: DeskRefusal, message: String },
    /// The journal has entries that this loop did not write: another loop is at work, or this one must replay the journal.
    #[error("the journal has gone on without this loop")]
    Overtaken,
}

/// The journal of this task, with the connection on which it is read and extended.
#[derive(Debug)]
pub(crate) struct JournalClient {
    keeper: KeeperClient,
    stream: Option<KeeperStream>,
    facts: TaskFacts,
    /// Number of the last entry that was received.
    last: u64,
    /// Entries that were received and not yet handed to the caller.
    rows: VecDeque<JournalRow>,
}

/// A text that is kept behind an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutcomeText {
    pub(crate) origin: TextOrigin,
    /// Path of a file in the workspace, or the name of a tool.
    pub(crate) path: String,
    pub(crate) bytes: Vec<u8>,
}

/// A connection on which the journal was just opened.
struct OpenedJournal {
    stream: KeeperStream,
    facts: TaskFacts,
}

/// The entry, beside words of people, that may have been added while the connection was lost.
#[derive(Clone, Copy)]
enum ExpectedEntry<'a> {
    Nothing,
    /// The entry that this loop was appending.
    Own(&'a JournalEntry),
    /// The answer of the model, which the host appends.
    Answer,
}

impl ExpectedEntry<'_> {
    fn may_be(self, entry: &JournalEntry) -> bool {
        match (self, entry) {
            (_, JournalEntry::Said { .. }) | (Self::Answer, JournalEntry::Answer { .. }) => true,
            (Self::Own(own), entry) => own == entry,
            (Self::Nothing | Self::Answer, _) => false,
        }
    }
}

impl JournalClient {
    /// Opens the journal, however long the host is away. `replay` then reads its entries.
    pub(crate) async fn open(keeper: KeeperClient) -> Self {
        let OpenedJournal { stream, facts } = opened(&keeper).await;
        Self { keeper, stream: Some(stream), facts, last: 0, rows: VecDeque::new() }
    }

    /// The facts that the host sent when the journal was last opened.
    pub(crate) fn facts(&self) -> &TaskFacts {
        &self.facts
    }

    /// Passes every entry that the journal had when it was opened to `take`.
    pub(crate) async fn replay(&mut self, mut take: impl FnMut(JournalRow)) -> Result<(), JournalError> {
        while self.last < self.facts.entries {
            match self.receive().await {
                Ok(DeskReply::Entry(row)) if row.number == self.last + 1 => {
                    self.last = row.number;
                    take(row);
                }
                // After a reconnection the host sends the journal from its beginning.
                Ok(DeskReply::Entry(row)) if row.number <= self.last => {}
                Ok(_) => return Err(JournalError::Overtaken),
                Err(_) => self.reconnect().await,
            }
        }
        Ok(())
    }

    /// Appends an entry, with texts that are kept behind it. Returns all new entries up to and including it.
    pub(crate) async fn append(
        &mut self,
        entry: JournalEntry,
        texts: Vec<OutcomeText>,
    ) -> Result<Vec<JournalRow>, JournalError> {
        let number = self.last + 1;
        let texts = if self.facts.keeps_texts { within_bounds(texts) } else { Vec::new() };
        let kept = texts.iter().map(announced).collect();
        let request = DeskRequest::Append { number, entry: entry.clone(), kept };
        loop {
            if self.send_with(&request, &texts).await.is_ok() {
                match self.appended().await {
                    Ok(Ok(kept)) => return self.keep_own(kept, entry),
                    Ok(Err(refusal)) => return Err(refusal),
                    Err(_) => {}
                }
            }
            // The entry may have been stored before the connection was lost. Appending it again under the same number is
            // answered alike and stores it once.
            self.reopen(ExpectedEntry::Own(&entry)).await?;
            // The entry was stored before the connection was lost; the journal has it among the entries that were just read.
            if self.rows.iter().any(|row| row.entry == entry) {
                return Ok(self.rows.drain(..).collect());
            }
        }
    }

    /// Returns the words of people since the last call, without waiting.
    pub(crate) fn new_replies(&mut self) -> Vec<JournalRow> {
        while let Some(stream) = &mut self.stream {
            match stream.receive_message().now_or_never() {
                Some(Ok(DeskReply::Said(row))) => self.keep(row),
                Some(_) => self.stream = None,
                None => break,
            }
        }
        self.rows.drain(..).collect()
    }

    /// Waits for the next words of a person.
    pub(crate) async fn wait_for_reply(&mut self) -> Result<Vec<JournalRow>, JournalError> {
        while self.rows.is_empty() {
            match self.receive().await {
                Ok(DeskReply::Said(row)) => self.keep(row),
                Ok(_) => self.stream = None,
                Err(_) => self.reopen(ExpectedEntry::Nothing).await?,
            }
        }
        Ok(self.rows.drain(..).collect())
    }

    /// Waits until all entries before the answer of this number are here. The stream of the model call reported the number. After
    /// a reconnection the answer itself may be among the returned entries.
    pub(crate) async fn receive_before(&mut self, number: u64) -> Result<Vec<JournalRow>, JournalError> {
        while self.last + 1 < number {
            match self.receive().await {
                Ok(DeskReply::Said(row)) => self.keep(row),
                Ok(_) => self.stream = None,
                Err(_) => self.reopen(ExpectedEntry::Answer).await?,
            }
        }
        Ok(self.rows.drain(..).collect())
    }

    /// Notes an answer that the host stored and sent on the stream of the model call.
    pub(crate) fn skip_answer(&mut self, row: &JournalRow) {
        self.last = self.last.max(row.number);
    }

    /// Passes every entry of the journal to `take`, each once.
    pub(crate) async fn read(&mut self, mut take: impl FnMut(JournalRow)) -> Result<(), JournalError> {
        let mut next = 1;
        while next <= self.last {
            let count = JOURNAL_READ_ENTRIES.min(self.last - next + 1);
            if self.send(&DeskRequest::Read { first: next, count, question: None }).await.is_err()
                || self.read_page(&mut next, &mut take).await.is_err()
            {
                self.reopen(ExpectedEntry::Nothing).await?;
            }
        }
        Ok(())
    }

    /// Asks the host about everything that the job has seen. `None` if it can't answer.
    pub(crate) async fn ask(
        &mut self,
        question: JournalQuestion,
    ) -> Result<Option<JournalPassages>, JournalError> {
        let request = DeskRequest::Read { first: 1, count: 1, question: Some(Box::new(question)) };
        loop {
            if self.send(&request).await.is_ok() {
                match self.answered().await {
                    Ok(answer) => return Ok(answer.filter(|answer| !answer.failed)),
                    Err(_) => self.stream = None,
                }
            }
            self.reopen(ExpectedEntry::Nothing).await?;
        }
    }

    async fn answered(&mut self) -> Result<Option<JournalPassages>, FrameError> {
        loop {
            match self.receive().await? {
                DeskReply::Said(row) => self.keep(row),
                DeskReply::Reading { recalled: Some(answer), .. } => return Ok(Some(*answer)),
                // A host that knows no questions sends the entry that the request names.
                DeskReply::Reading { entries: 1.., recalled: None } => {}
                DeskReply::Entry(_) | DeskReply::Reading { .. } => return Ok(None),
                _ => return Err(FrameError::Malformed("not an answer to a question".into())),
            }
        }
    }

    /// Reads one entry; `None` if the journal has no entry of this number.
    pub(crate) async fn entry(&mut self, number: u64) -> Result<Option<JournalRow>, JournalError> {
        let mut found = None;
        while found.is_none() && (1..=self.last).contains(&number) {
            let mut next = number;
            let sent = self.send(&DeskRequest::Read { first: number, count: 1, question: None }).await;
            if sent.is_err() || self.read_page(&mut next, &mut |row| found = Some(row)).await.is_err() {
                self.reopen(ExpectedEntry::Nothing).await?;
            }
        }
        Ok(found)
    }

    async fn read_page(
        &mut self,
        next: &mut u64,
        take: &mut impl FnMut(JournalRow),
    ) -> Result<(), FrameError> {
        let mut left = None;
        while left != Some(0) {
            match self.receive().await? {
                DeskReply::Said(row) => self.keep(row),
                DeskReply::Reading { entries, .. } if entries > 0 => left = Some(entries),
                DeskReply::Entry(row) => {
                    left = left.map(|left: u64| left.saturating_sub(1));
                    if row.number >= *next {
                        *next = row.number + 1;
                        take(row);
                    }
                }
                _ => {
                    self.stream = None;
                    return Err(FrameError::Malformed("not a part of the journal".into()));
                }
            }
        }
        Ok(())
    }

    fn keep_own(&mut self, number: u64, entry: JournalEntry) -> Result<Vec<JournalRow>, JournalError> {
        // The host sends the words of people before it reports the number, so a gap means that another loop has written.
        if number != self.last + 1 {
            return Err(JournalError::Overtaken);
        }
        self.keep(JournalRow { number, at_ms: 0, incarnation: self.facts.incarnation, entry });
        Ok(self.rows.drain(..).collect())
    }

    /// Queues an entry for the caller. An entry that was received before is dropped.
    fn keep(&mut self, row: JournalRow) {
        if row.number > self.last {
            self.last = row.number;
            self.rows.push_back(row);
        }
    }

    async fn appended(&mut self) -> Result<Result<u64, JournalError>, FrameError> {
        loop {
            match self.receive().await? {
                DeskReply::Said(row) => self.keep(row),
                DeskReply::Appended { number } => return Ok(Ok(number)),
                DeskReply::Refused { code: DeskRefusal::NumberTaken, .. } => {
                    return Ok(Err(JournalError::Overtaken));
                }
                DeskReply::Refused { code, message } => {
                    return Ok(Err(JournalError::Refused { code, message }));
                }
                DeskReply::Opened(_) | DeskReply::Reading { .. } | DeskReply::Entry(_) => {
                    return Err(FrameError::Malformed("not an answer to an entry".into()));
                }
            }
        }
    }

    /// Opens the journal again and queues its new entries. A new entry that is neither expected nor the words of a person was
    /// written by another loop.
    async fn reopen(&mut self, expected: ExpectedEntry<'_>) -> Result<(), JournalError> {
        self.reconnect().await;
        let mut received = 0;
        while received < self.facts.entries {
            match self.receive().await {
                Ok(DeskReply::Entry(row)) if row.number <= self.last || expected.may_be(&row.entry) => {
                    received += 1;
                    self.keep(row);
                }
                Ok(_) => return Err(JournalError::Overtaken),
                Err(_) => {
                    self.reconnect().await;
                    received = 0;
                }
            }
        }
        Ok(())
    }

    async fn reconnect(&mut self) {
        let OpenedJournal { stream, facts } = opened(&self.keeper).await;
        self.stream = Some(stream);
        self.facts = facts;
    }

    async fn send(&mut self, request: &DeskRequest) -> Result<(), FrameError> {
        let sent = match &mut self.stream {
            Some(stream) => stream.send_message(request).await,
            None => Err(FrameError::Ended),
        };
        sent.inspect_err(|_| self.stream = None)
    }

    /// Sends a request and the bytes that it announces.
    async fn send_with(&mut self, request: &DeskRequest, texts: &[OutcomeText]) -> Result<(), FrameError> {
        self.send(request).await?;
        for part in texts.iter().flat_map(|text| text.bytes.chunks(DATA_BYTES)) {
            let sent = match &mut self.stream {
                Some(stream) => stream.send_data(part).await,
                None => Err(FrameError::Ended),
            };
            sent.inspect_err(|_| self.stream = None)?;
        }
        Ok(())
    }

    async fn receive(&mut self) -> Result<DeskReply, FrameError> {
        let received = match &mut self.stream {
            Some(stream) => stream.receive_message().await,
            None => Err(FrameError::Ended),
        };
        received.inspect_err(|_| self.stream = None)
    }
}

/// The texts that fit behind one entry.
fn within_bounds(texts: Vec<OutcomeText>) -> Vec<OutcomeText> {
    let mut room = KEPT_TEXT_BYTES;
    let fits = |text: &OutcomeText| {
        let left = room.checked_sub(text.bytes.len() as u64);
        room = left.unwrap_or(room);
        left.is_some()
    };
    texts.into_iter().filter(fits).take(KEPT_TEXTS).collect()
}

fn announced(text: &OutcomeText) -> KeptText {
    KeptText { origin: text.origin, path: text.path.clone(), bytes: text.bytes.len() as u64 }
}

/// Opens the journal, however long the host is away.
async fn opened(keeper: &KeeperClient) -> OpenedJournal {
    let mut wait = FIRST_RETRY;
    loop {
        if let Ok(opened) = try_open(keeper).await {
            return opened;
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(LONGEST_RETRY);
    }
}

async fn try_open(keeper: &KeeperClient) -> Result<OpenedJournal, FrameError> {
    let mut stream = keeper.journal().await?;
    let loop_version = env!("CARGO_PKG_VERSION").to_owned();
    stream.send_message(&DeskRequest::Open { loop_version }).await?;
    match stream.receive_message().await? {
        DeskReply::Opened(facts) => Ok(OpenedJournal { stream, facts: *facts }),
        _ => Err(FrameError::Malformed("the journal was not opened".into())),
    }
}
