//! Journals of tasks: entries added by a loop, where it expects them, and by people, whenever they speak.

use sandyard_protocol::{JournalEntry, limits};

use super::{JobBefore, JobWrite, StoreRules, known};
use crate::audit::AuditEntry;
use crate::job::{Change, JobRow, JobState};
use crate::store::{Appended, Said, StoreError};

/// Room that is left for the last words of a loop whose journal is full.
const LAST_WORDS_BYTES: u64 = 4 * limits::JOURNAL_ENTRY_BYTES as u64;

/// An entry that is in a journal already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredEntry {
    pub(crate) number: u64,
    /// The entry as JSON. Compared as text to detect a repeated append.
    pub(crate) text: String,
}

/// The decision on an entry that a loop wants to add.
#[derive(Debug)]
pub(crate) enum AppendDecision {
    /// The store writes nothing and returns this answer.
    Answer(Appended),
    /// The entry is written under that number.
    Write { number: u64, write: Box<JobWrite> },
}

/// The decision on a person's words.
#[derive(Debug)]
pub(crate) enum SayDecision {
    /// The store writes nothing and returns this answer.
    Answer(Said),
    /// The words are written.
    Write(Box<JobWrite>),
}

impl StoreRules<'_> {
    /// Decides on an entry that a loop expects under a number. `found` is the first entry at or behind that number which the
    /// loop itself wrote: people's words take numbers that it could not know of, and are passed over.
    pub(crate) fn append(
        &self,
        row: JobRow,
        found: Option<&StoredEntry>,
        number: u64,
        entry: Box<JournalEntry>,
    ) -> Result<AppendDecision, StoreError> {
        let answer = |appended| Ok(AppendDecision::Answer(appended));
        let Some(entries) = row.task.as_ref().map(|task| task.entries) else {
            return answer(Appended::Ended);
        };
        let text = entry_text(&entry)?;
        // A gap would mean that the loop knows entries which the store never had. The number comes from the guest.
        if number == 0 || number > entries + 1 {
            return answer(Appended::NumberTaken);
        }
        // A repeated append gets the same answer, even after the end of the job: the loop may not have received the first one.
        match found {
            Some(found) if found.text == text => return answer(Appended::Kept { number: found.number }),
            Some(_) => return answer(Appended::NumberTaken),
            None => {}
        }
        if !matches!(row.state, JobState::Running | JobState::Waiting | JobState::Starting) {
            return answer(Appended::Ended);
        }
        // After the check for a repeat: a full journal must still confirm what it holds.
        if is_full(&row, &text, &entry) {
            return answer(Appended::Full);
        }
        let write = self.change(JobBefore::of(&row), row, vec![Change::Journal(entry)])?;
        Ok(AppendDecision::Write { number: entries + 1, write: Box::new(write) })
    }

    /// Decides on a person's words, which a task hears while it runs or waits.
    pub(crate) fn say(
        &self,
        found: Option<JobRow>,
        said: Box<JournalEntry>,
        entry: AuditEntry,
    ) -> Result<SayDecision, StoreError> {
        let Some(row) = known(found) else { return Ok(SayDecision::Answer(Said::Unknown)) };
        let listens = matches!(row.state, JobState::Running | JobState::Waiting) && !row.cancel_requested;
        let text = entry_text(&said)?;
        let task = row.task.as_ref().filter(|_| listens);
        if task.is_none_or(|_| is_full(&row, &text, &said)) {
            return Ok(SayDecision::Answer(Said::Deaf(Box::new(row))));
        }
        let changes = vec![Change::Audit(entry), Change::Journal(said)];
        Ok(SayDecision::Write(Box::new(self.change(JobBefore::of(&row), row, changes)?)))
    }
}

fn entry_text(entry: &JournalEntry) -> Result<String, StoreError> {
    serde_json::to_string(entry).map_err(|_| StoreError::Damaged { what: "journal entry" })
}

fn is_full(row: &JobRow, text: &str, entry: &JournalEntry) -> bool {
    let last_words = matches!(entry, JournalEntry::Finished { .. } | JournalEntry::GaveUp { .. });
    let room = if last_words { limits::JOURNAL_BYTES + LAST_WORDS_BYTES } else { limits::JOURNAL_BYTES };
    row.journal_bytes + text.len() as u64 > room
}

#[cfg(test)]
mod tests {
    use sandyard_protocol::Speaker;

    use super::*;
    use crate::clock::Clock;
    use crate::job::{TaskRow, samples};
    use crate::store::AuditSigner;
    use crate::store::rules::WriteTime;

    #[test]
    fn a_journal_has_an_end_and_room_for_last_words() {
        let signer = AuditSigner::new(samples::signing_key());
        let rules = StoreRules { now: WriteTime::of(&Clock::default()), signer: &signer };
        let row = JobRow {
            state: JobState::Running,
            journal_bytes: limits::JOURNAL_BYTES,
            task: Some(TaskRow { entries: 1, ..TaskRow::default() }),
            ..samples::job_row()
        };
        let append = |entry| rules.append(row.clone(), None, 2, Box::new(entry)).unwrap();
        let more = append(JournalEntry::Nudge { text: "more".into() });
        assert!(matches!(more, AppendDecision::Answer(Appended::Full)));
        let words = JournalEntry::Said { text: "more".into(), by: Speaker::Person, budget: None };
        let said = rules.say(Some(row.clone()), Box::new(words), samples::entry()).unwrap();
        assert!(matches!(said, SayDecision::Answer(Said::Deaf(_))));
        let last = append(JournalEntry::GaveUp { reason: "no room".into() });
        assert!(matches!(last, AppendDecision::Write { number: 2, .. }));
    }
}
