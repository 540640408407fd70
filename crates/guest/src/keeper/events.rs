//! Events that keeper sends to the host: numbered, kept on disk until the host has acknowledged them, sent once.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use sandyard_protocol::{Exit, GuestError, GuestErrorCode, GuestEvent, OutputOffsets, SequencedEvent};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::clock::unix_ms;
use super::spool::{Spool, SpoolError};
use crate::limits::PENDING_EVENTS;

const DOCUMENT: &str = "events.json";

/// The events the host does not have yet.
#[derive(Debug)]
pub(super) struct EventLog {
    spool: Arc<Spool>,
    log: Mutex<StoredEvents>,
    changed: watch::Sender<()>,
}

/// An event and the output that comes before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PendingEvent {
    pub(super) event: SequencedEvent,
    /// The output that must be sent before the event.
    pub(super) after: OutputOffsets,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct StoredEvents {
    next_sequence: u64,
    pending: VecDeque<PendingEvent>,
    started: bool,
    ended: bool,
}

impl Default for StoredEvents {
    fn default() -> Self {
        Self { next_sequence: 1, pending: VecDeque::new(), started: false, ended: false }
    }
}

impl EventLog {
    pub(super) fn open(spool: Arc<Spool>) -> Result<Self, SpoolError> {
        let log = spool.load(DOCUMENT)?.unwrap_or_default();
        Ok(Self { spool, log: Mutex::new(log), changed: watch::Sender::new(()) })
    }

    /// Notifies of each change of the log.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Reports that the job runs. Only the first call counts.
    pub(super) fn started(&self) -> Result<(), SpoolError> {
        self.change(|log| {
            if !std::mem::replace(&mut log.started, true) {
                log.push(GuestEvent::Started, OutputOffsets::default());
            }
        })
    }

    /// Reports the end of the job and of its output. Only the first call counts.
    pub(super) fn ended(&self, exit: Exit, output: OutputOffsets) -> Result<(), SpoolError> {
        self.change(|log| {
            if !std::mem::replace(&mut log.ended, true) {
                log.push(GuestEvent::Ended { exit }, output);
            }
        })
    }

    /// Reports that keeper was restarted.
    pub(super) fn restarted(&self) -> Result<(), SpoolError> {
        self.change(|log| {
            // A keeper that restarts again and again while no host listens reports it once.
            if log.pending.back().map(|last| &last.event.event) != Some(&GuestEvent::KeeperRestarted) {
                log.push(GuestEvent::KeeperRestarted, OutputOffsets::default());
            }
        })
    }

    /// Adds a sentence for a person. Dropped if too many events wait.
    pub(super) fn note(&self, text: String) -> Result<(), SpoolError> {
        self.change(|log| {
            if log.pending.len() < PENDING_EVENTS {
                // Cut as every text of a guest is.
                let text = GuestError::new(GuestErrorCode::Internal, text).message;
                log.push(GuestEvent::Note { text }, OutputOffsets::default());
            }
        })
    }

    /// The first event from a number on.
    pub(super) fn next(&self, sequence: u64) -> Option<PendingEvent> {
        self.log().pending.iter().find(|pending| pending.event.sequence >= sequence).cloned()
    }

    /// The host has everything up to a number.
    pub(super) fn acknowledge(&self, sequence: u64) -> Result<(), SpoolError> {
        let has = |pending: &PendingEvent| pending.event.sequence <= sequence;
        if !self.log().pending.front().is_some_and(has) {
            return Ok(());
        }
        self.change(|log| log.pending.retain(|pending| !has(pending)))
    }

    /// Changes the log on disk first, then in memory.
    fn change(&self, change: impl FnOnce(&mut StoredEvents)) -> Result<(), SpoolError> {
        let mut log = self.log();
        let mut changed = log.clone();
        change(&mut changed);
        // A sequence number must not be used twice: the disk has the event before the host can get it.
        self.spool.store(DOCUMENT, &changed)?;
        *log = changed;
        drop(log);
        self.changed.send_replace(());
        Ok(())
    }

    fn log(&self) -> MutexGuard<'_, StoredEvents> {
        self.log.lock()
    }
}

impl StoredEvents {
    fn push(&mut self, event: GuestEvent, after: OutputOffsets) {
        let event = SequencedEvent { sequence: self.next_sequence, at_ms: unix_ms(), event };
        self.next_sequence += 1;
        self.pending.push_back(PendingEvent { event, after });
    }
}

#[cfg(test)]
mod tests {
    use sandyard_protocol::EndReason;

    use super::*;

    #[test]
    fn numbers_go_on_over_restarts_and_nothing_is_told_twice() {
        let folder = tempfile::tempdir().unwrap();
        let open = || EventLog::open(Arc::new(Spool::open(folder.path().to_owned()).unwrap())).unwrap();
        let exit = Exit { code: 0, signal: None, reason: EndReason::Own };
        let events = open();
        events.started().unwrap();
        events.started().unwrap();
        events.note("hello".into()).unwrap();
        events.acknowledge(1).unwrap();
        let events = open();
        events.started().unwrap();
        events.restarted().unwrap();
        events.restarted().unwrap();
        events.ended(exit, OutputOffsets { stdout: 5, stderr: 0 }).unwrap();
        events.ended(exit, OutputOffsets::default()).unwrap();
        let numbers: Vec<_> = events.log().pending.iter().map(|pending| pending.event.sequence).collect();
        assert_eq!(numbers, [2, 3, 4]);
        assert_eq!(events.next(0).unwrap().event.event, GuestEvent::Note { text: "hello".into() });
        assert_eq!(events.next(4).unwrap().after.stdout, 5);
        assert_eq!(events.next(5), None);
    }
}
