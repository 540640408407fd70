//! The desk on the host, where the journal is: opened again whenever it is lost, with nothing lost and nothing twice.
//!
//! Every entry reaches the caller once and in order, through `Rows`: those of the journal, those that a person adds at any
//! time, and those that the loop itself appends, after they are durable.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::FutureExt as _;
use sandyard_pipe::FrameError;
use sandyard_protocol::limits::JOURNAL_READ_ENTRIES;
use sandyard_protocol::{DeskRefusal, DeskReply, DeskRequest, JournalEntry, JournalRow, TaskFacts};

use crate::keeper::{Keeper, Stream};

/// The first wait before the desk is opened again …
const FIRST_WAIT: Duration = Duration::from_millis(50);
/// … and the longest: a host that comes back is found within this.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// The desk can't be used any more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DeskError {
    /// The host does not take the entry.
    #[error("the host refused an entry of the journal: {message}")]
    Refused {
        /// Why.
        code: DeskRefusal,
        /// In words.
        message: String,
    },
    /// The journal is not what this loop believes: another one is at work, or it has to begin from the journal again.
    #[error("the journal has gone on without this loop")]
    Overtaken,
}

/// An open desk.
#[derive(Debug)]
pub(crate) struct Desk {
    keeper: Keeper,
    stream: Option<Stream>,
    facts: TaskFacts,
    /// The number of the last entry that was received.
    last: u64,
    /// Entries that were received and not yet taken.
    rows: VecDeque<JournalRow>,
}

/// A connection on which the desk was just opened.
struct Opened {
    stream: Stream,
    facts: TaskFacts,
}

/// What else than people's words may have been added while the desk was closed.
#[derive(Clone, Copy)]
enum Expected<'a> {
    Nothing,
    /// The entry that was on its way.
    Own(&'a JournalEntry),
    /// The answer to the question that was on its way.
    Answer,
}

impl Expected<'_> {
    fn may_be(self, entry: &JournalEntry) -> bool {
        match (self, entry) {
            (_, JournalEntry::Said { .. }) | (Self::Answer, JournalEntry::Answer { .. }) => true,
            (Self::Own(own), entry) => own == entry,
            (Self::Nothing | Self::Answer, _) => false,
        }
    }
}

impl Desk {
    /// Opens the desk; its whole journal is then to be taken with `next`.
    pub(crate) async fn open(keeper: Keeper) -> Self {
        let Opened { stream, facts } = opened(&keeper).await;
        Self { keeper, stream: Some(stream), facts, last: 0, rows: VecDeque::new() }
    }

    /// What the host said of the task when the desk was last opened.
    pub(crate) fn facts(&self) -> &TaskFacts {
        &self.facts
    }

    /// Hands every entry that the journal had when it was opened to `take`, without keeping any.
    pub(crate) async fn replay(&mut self, mut take: impl FnMut(JournalRow)) -> Result<(), DeskError> {
        while self.last < self.facts.entries {
            match self.receive().await {
                Ok(DeskReply::Entry(row)) if row.number == self.last + 1 => {
                    self.last = row.number;
                    take(row);
                }
                Ok(DeskReply::Entry(row)) if row.number <= self.last => {}
                Ok(_) => return Err(DeskError::Overtaken),
                Err(_) => self.reconnect().await,
            }
        }
        Ok(())
    }

    /// Adds an entry. Returns the entry as it was kept, after everything that came before it.
    pub(crate) async fn append(&mut self, entry: JournalEntry) -> Result<Vec<JournalRow>, DeskError> {
        let number = self.last + 1;
        let request = DeskRequest::Append { number, entry: entry.clone() };
        loop {
            if self.send(&request).await.is_ok() {
                match self.appended().await {
                    Ok(Ok(kept)) => return self.keep_own(kept, entry),
                    Ok(Err(refusal)) => return Err(refusal),
                    Err(_) => {}
                }
            }
            // The entry may have been kept: the same number again asks just that.
            self.reopen(Expected::Own(&entry)).await?;
            if self.rows.iter().any(|row| row.entry == entry) {
                return Ok(self.rows.drain(..).collect());
            }
        }
    }

    /// Everything that people have said and nobody has taken, without waiting.
    pub(crate) fn said(&mut self) -> Vec<JournalRow> {
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
    pub(crate) async fn wait(&mut self) -> Result<Vec<JournalRow>, DeskError> {
        while self.rows.is_empty() {
            match self.receive().await {
                Ok(DeskReply::Said(row)) => self.keep(row),
                Ok(_) => self.stream = None,
                Err(_) => self.reopen(Expected::Nothing).await?,
            }
        }
        Ok(self.rows.drain(..).collect())
    }

    /// Waits until all entries before that of an answer are here, of which another stream has spoken. It may come with them.
    pub(crate) async fn up_to(&mut self, number: u64) -> Result<Vec<JournalRow>, DeskError> {
        while self.last + 1 < number {
            match self.receive().await {
                Ok(DeskReply::Said(row)) => self.keep(row),
                Ok(_) => self.stream = None,
                Err(_) => self.reopen(Expected::Answer).await?,
            }
        }
        Ok(self.rows.drain(..).collect())
    }

    /// Notes an entry that the host wrote for the loop and told on another stream.
    pub(crate) fn told(&mut self, row: &JournalRow) {
        self.last = self.last.max(row.number);
    }

    /// Hands the whole journal to `take`, entry by entry and each once, without keeping any.
    pub(crate) async fn read(&mut self, mut take: impl FnMut(JournalRow)) -> Result<(), DeskError> {
        let mut next = 1;
        while next <= self.last {
            let count = JOURNAL_READ_ENTRIES.min(self.last - next + 1);
            if self.send(&DeskRequest::Read { first: next, count }).await.is_err()
                || self.read_page(&mut next, &mut take).await.is_err()
            {
                self.reopen(Expected::Nothing).await?;
            }
        }
        Ok(())
    }

    /// One entry of the journal.
    pub(crate) async fn entry(&mut self, number: u64) -> Result<Option<JournalRow>, DeskError> {
        let mut found = None;
        while found.is_none() && (1..=self.last).contains(&number) {
            let mut next = number;
            let sent = self.send(&DeskRequest::Read { first: number, count: 1 }).await;
            if sent.is_err() || self.read_page(&mut next, &mut |row| found = Some(row)).await.is_err() {
                self.reopen(Expected::Nothing).await?;
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
                DeskReply::Reading { entries } if entries > 0 => left = Some(entries),
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

    fn keep_own(&mut self, number: u64, entry: JournalEntry) -> Result<Vec<JournalRow>, DeskError> {
        if number != self.last + 1 {
            return Err(DeskError::Overtaken);
        }
        self.keep(JournalRow { number, at_ms: 0, incarnation: self.facts.incarnation, entry });
        Ok(self.rows.drain(..).collect())
    }

    /// A row twice is one row.
    fn keep(&mut self, row: JournalRow) {
        if row.number > self.last {
            self.last = row.number;
            self.rows.push_back(row);
        }
    }

    async fn appended(&mut self) -> Result<Result<u64, DeskError>, FrameError> {
        loop {
            match self.receive().await? {
                DeskReply::Said(row) => self.keep(row),
                DeskReply::Appended { number } => return Ok(Ok(number)),
                DeskReply::Refused { code: DeskRefusal::NumberTaken, .. } => {
                    return Ok(Err(DeskError::Overtaken));
                }
                DeskReply::Refused { code, message } => return Ok(Err(DeskError::Refused { code, message })),
                DeskReply::Opened(_) | DeskReply::Reading { .. } | DeskReply::Entry(_) => {
                    return Err(FrameError::Malformed("not an answer to an entry".into()));
                }
            }
        }
    }

    /// Opens the desk again. Of the entries that are new, people's words and what is expected are kept; any other was written
    /// by somebody else.
    async fn reopen(&mut self, expected: Expected<'_>) -> Result<(), DeskError> {
        self.reconnect().await;
        let mut received = 0;
        while received < self.facts.entries {
            match self.receive().await {
                Ok(DeskReply::Entry(row)) if row.number <= self.last || expected.may_be(&row.entry) => {
                    received += 1;
                    self.keep(row);
                }
                Ok(_) => return Err(DeskError::Overtaken),
                Err(_) => {
                    self.reconnect().await;
                    received = 0;
                }
            }
        }
        Ok(())
    }

    async fn reconnect(&mut self) {
        let Opened { stream, facts } = opened(&self.keeper).await;
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

    async fn receive(&mut self) -> Result<DeskReply, FrameError> {
        let received = match &mut self.stream {
            Some(stream) => stream.receive_message().await,
            None => Err(FrameError::Ended),
        };
        received.inspect_err(|_| self.stream = None)
    }
}

/// Opens the desk, however long the host is away.
async fn opened(keeper: &Keeper) -> Opened {
    let mut wait = FIRST_WAIT;
    loop {
        if let Ok(opened) = try_open(keeper).await {
            return opened;
        }
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(LONGEST_WAIT);
    }
}

async fn try_open(keeper: &Keeper) -> Result<Opened, FrameError> {
    let mut stream = keeper.desk().await?;
    let loop_version = env!("CARGO_PKG_VERSION").to_owned();
    stream.send_message(&DeskRequest::Open { loop_version }).await?;
    match stream.receive_message().await? {
        DeskReply::Opened(facts) => Ok(Opened { stream, facts: *facts }),
        _ => Err(FrameError::Malformed("the desk was not opened".into())),
    }
}
