//! What keeper reports of its own accord: numbered, kept on disk until the host acknowledged it, told once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sandyard_protocol::{Exit, GuestError, GuestErrorCode, GuestEvent, OutputOffsets, SequencedEvent};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::clock::unix_ms;
use super::spool::{Spool, SpoolError};
use crate::limits::PENDING_EVENTS;

const DOCUMENT: &str = "events.json";

/// The events the host does not have yet.
#[derive(Debug)]
pub(super) struct Events {
    spool: Arc<Spool>,
    log: Mutex<Log>,
    changed: watch::Sender<()>,
}

/// An event and the output that comes before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pending {
    /// The event.
    pub(super) event: SequencedEvent,
    /// It is sent only after the output up to here.
    pub(super) after: OutputOffsets,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Log {
    next_sequence: u64,
    pending: VecDeque<Pending>,
    started: bool,
    ended: bool,
}

impl Default for Log {
    fn default() -> Self {
        Self { next_sequence: 1, pending: VecDeque::new(), started: false, ended: false }
    }
}

impl Events {
    /// Opens the log.
    pub(super) fn open(spool: Arc<Spool>) -> Result<Self, SpoolError> {
        let log = spool.load(DOCUMENT)?.unwrap_or_default();
        Ok(Self { spool, log: Mutex::new(log), changed: watch::Sender::new(()) })
    }

    /// Changes of the log.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// The job runs. Told once, however often it is said.
    pub(super) fn started(&self) -> Result<(), SpoolError> {
        self.change(|log| {
            if !std::mem::replace(&mut log.started, true) {
                log.push(GuestEvent::Started, OutputOffsets::default());
            }
        })
    }

    /// The job is over and this was all its output. Told once, however often it is said.
    pub(super) fn ended(&self, exit: Exit, output: OutputOffsets) -> Result<(), SpoolError> {
        self.change(|log| {
            if !std::mem::replace(&mut log.ended, true) {
                log.push(GuestEvent::Ended { exit }, output);
            }
        })
    }

    /// Keeper began again.
    pub(super) fn restarted(&self) -> Result<(), SpoolError> {
        self.change(|log| {
            // A keeper that restarts again and again while no host listens says so once.
            if log.pending.back().map(|last| &last.event.event) != Some(&GuestEvent::KeeperRestarted) {
                log.push(GuestEvent::KeeperRestarted, OutputOffsets::default());
            }
        })
    }

    /// Something worth telling a person.
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
    pub(super) fn next(&self, sequence: u64) -> Option<Pending> {
        self.log().pending.iter().find(|pending| pending.event.sequence >= sequence).cloned()
    }

    /// The host has everything up to a number.
    pub(super) fn acknowledge(&self, sequence: u64) -> Result<(), SpoolError> {
        let has = |pending: &Pending| pending.event.sequence <= sequence;
        if !self.log().pending.front().is_some_and(has) {
            return Ok(());
        }
        self.change(|log| log.pending.retain(|pending| !has(pending)))
    }

    /// Changes the log in memory only once it is changed on disk.
    fn change(&self, change: impl FnOnce(&mut Log)) -> Result<(), SpoolError> {
        let mut log = self.log();
        let mut changed = log.clone();
        change(&mut changed);
        self.spool.store(DOCUMENT, &changed)?;
        *log = changed;
        drop(log);
        self.changed.send_replace(());
        Ok(())
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    fn push(&mut self, event: GuestEvent, after: OutputOffsets) {
        let event = SequencedEvent { sequence: self.next_sequence, at_ms: unix_ms(), event };
        self.next_sequence += 1;
        self.pending.push_back(Pending { event, after });
    }
}

#[cfg(test)]
mod tests {
    use sandyard_protocol::EndReason;

    use super::*;

    #[test]
    fn numbers_go_on_over_restarts_and_nothing_is_told_twice() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Events::open(Arc::new(Spool::open(folder.path().to_owned()).unwrap())).unwrap();
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
