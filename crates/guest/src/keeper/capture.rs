//! The output of one process stream, kept on disk and followed by any number of readers at their own pace.
//!
//! The job's own output stays until the host acknowledged it; when too much waits, nothing more is read and the job blocks
//! on its pipe, so nothing is ever lost. Other output stays for a while: a follower that keeps up sees all of it, and
//! may hold the process back a little; one that does not is told how much it lost.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sandyard_protocol::limits::REPLAY_BYTES;
use tokio::sync::{Notify, watch};

use super::segments::{Segments, Taken};
use crate::limits::{
    BYTES_PER_TURN, DOCUMENT_RESERVE, FOLLOWER_PATIENCE, FULL_DISK_RETRY, JOB_RESERVE, SPOOL_BYTES,
};

const REPLAY: u64 = REPLAY_BYTES as u64;

/// How long output stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Retention {
    /// Until `acknowledge`.
    UntilAcknowledged,
    /// The last of it.
    Recent,
}

/// How far a stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Progress {
    /// Offset after the last byte.
    pub(super) end: u64,
    /// Whether that is the last byte there will be.
    pub(super) closed: bool,
}

/// One stream.
#[derive(Debug)]
pub(super) struct Capture {
    state: Mutex<State>,
    progress: watch::Sender<Progress>,
    freed: Notify,
    retention: Retention,
}

#[derive(Debug)]
struct State {
    segments: Segments,
    followers: BTreeMap<u64, u64>,
    next_follower: u64,
    last_output: Instant,
    blocked_since: Option<Instant>,
}

impl Capture {
    /// Opens a stream's directory.
    pub(super) fn open(directory: PathBuf, retention: Retention) -> io::Result<Self> {
        let reserve = match retention {
            Retention::UntilAcknowledged => DOCUMENT_RESERVE,
            Retention::Recent => JOB_RESERVE,
        };
        let segments = Segments::open(directory, reserve)?;
        let progress = watch::Sender::new(Progress { end: segments.end(), closed: false });
        let state = State {
            segments,
            followers: BTreeMap::new(),
            next_follower: 0,
            last_output: Instant::now(),
            blocked_since: None,
        };
        Ok(Self { state: Mutex::new(state), progress, freed: Notify::new(), retention })
    }

    /// How far the stream is, and its changes.
    pub(super) fn progress(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// Offset after the last byte.
    pub(super) fn end(&self) -> u64 {
        self.progress.borrow().end
    }

    /// Bytes on disk.
    pub(super) fn bytes(&self) -> u64 {
        self.state().segments.bytes()
    }

    /// How long nothing came. A process that can't write because we don't read is not idle.
    pub(super) fn quiet_for(&self) -> Duration {
        let state = self.state();
        if state.blocked_since.is_some() { Duration::ZERO } else { state.last_output.elapsed() }
    }

    /// Takes what a pipe has, as far as there is room.
    pub(super) fn take_from_pipe(&self, pipe: impl AsFd) -> io::Result<Taken> {
        self.take(|segments, room| segments.take_from_pipe(&pipe, room))
    }

    /// Takes what a terminal shows, as far as there is room. Unlike a pipe's, bytes in between are lost with keeper.
    pub(super) fn take_from_terminal(&self, terminal: impl AsFd) -> io::Result<Taken> {
        self.take(|segments, room| {
            let mut buffer = [0; 16 * 1024];
            let most = buffer.len().min(room);
            match rustix::io::read(&terminal, &mut buffer[..most]) {
                // Linux says EIO once the last process has closed the terminal.
                Ok(0) | Err(rustix::io::Errno::IO) => Ok(Taken::End),
                Ok(count) => segments.append(&buffer[..count]),
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(Taken::Nothing),
                Err(errno) => Err(errno.into()),
            }
        })
    }

    /// Adds bytes that came by another way than a descriptor, waiting for room.
    pub(super) async fn append(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.take(|segments, room| segments.append(&bytes[..bytes.len().min(room)]))? {
                Taken::Bytes(count) => bytes = &bytes[count..],
                _ => self.wait_for_room().await,
            }
        }
        Ok(())
    }

    fn take(&self, take: impl FnOnce(&mut Segments, usize) -> io::Result<Taken>) -> io::Result<Taken> {
        let mut state = self.state();
        let room = usize::try_from(self.room(&state)).unwrap_or(usize::MAX).min(BYTES_PER_TURN);
        let taken = if room == 0 { Taken::Full } else { take(&mut state.segments, room)? };
        match taken {
            Taken::Bytes(_) => {
                state.last_output = Instant::now();
                state.blocked_since = None;
                if self.retention == Retention::Recent {
                    state.trim();
                }
                let end = state.segments.end();
                drop(state);
                self.progress.send_modify(|progress| progress.end = end);
            }
            Taken::Full => {
                let since = *state.blocked_since.get_or_insert_with(Instant::now);
                if self.retention == Retention::Recent {
                    if room > 0 {
                        // The disk is full: the newest output is worth more than the oldest.
                        state.segments.drop_first();
                    } else if since.elapsed() >= FOLLOWER_PATIENCE {
                        state.leave_slow_followers_behind();
                    }
                }
            }
            Taken::Nothing | Taken::End => state.blocked_since = None,
        }
        Ok(taken)
    }

    fn room(&self, state: &State) -> u64 {
        match self.retention {
            Retention::UntilAcknowledged => SPOOL_BYTES.saturating_sub(state.segments.bytes()),
            Retention::Recent => {
                let behind = |offset: &u64| state.segments.end().saturating_sub(*offset);
                let most_behind = state.followers.values().map(behind).max().unwrap_or(0);
                REPLAY.saturating_sub(most_behind)
            }
        }
    }

    /// Returns when there may be room again.
    pub(super) async fn wait_for_room(&self) {
        // A notice that comes before this wait is kept by `Notify`; the retry serves a disk that others filled.
        let _ = tokio::time::timeout(FULL_DISK_RETRY, self.freed.notified()).await;
    }

    /// The host has everything before `offset`.
    pub(super) fn acknowledge(&self, offset: u64) {
        if self.state().segments.drop_before(offset) {
            self.freed.notify_one();
        }
    }

    /// Nothing more will come.
    pub(super) fn close(&self) {
        self.progress.send_modify(|progress| progress.closed = true);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// They hold nothing back until they read again.
    fn leave_slow_followers_behind(&mut self) {
        let end = self.segments.end();
        self.followers.retain(|_, offset| end.saturating_sub(*offset) < REPLAY);
        self.blocked_since = None;
    }

    fn trim(&mut self) {
        while self.segments.bytes().saturating_sub(self.segments.first_bytes()) >= REPLAY {
            if !self.segments.drop_first() {
                return;
            }
        }
    }
}

/// What a follower finds at its place.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Bytes, beginning at an offset.
    Bytes {
        /// Place of the first.
        offset: u64,
        /// How many.
        count: usize,
    },
    /// So many bytes are no longer kept; the follower goes on after them.
    Lost(u64),
    /// Nothing yet.
    Nothing,
    /// All of the stream was read.
    End,
}

/// A reader at its own place.
#[derive(Debug)]
pub(super) struct Follower {
    capture: Arc<Capture>,
    progress: watch::Receiver<Progress>,
    key: u64,
    offset: u64,
}

impl Follower {
    /// Begins at an offset; one beyond the end means the end.
    pub(super) fn new(capture: Arc<Capture>, offset: u64) -> Self {
        let progress = capture.progress();
        let mut state = capture.state();
        let offset = offset.min(state.segments.end());
        let key = state.next_follower;
        state.next_follower += 1;
        state.followers.insert(key, offset);
        drop(state);
        Self { capture, progress, key, offset }
    }

    /// Where it is.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The next bytes, at most as many as fit.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Piece> {
        let Progress { closed, .. } = *self.progress.borrow_and_update();
        let mut state = self.capture.state();
        let start = state.segments.start();
        if self.offset < start {
            let lost = start - self.offset;
            self.offset = start;
            return Ok(Piece::Lost(lost));
        }
        match state.segments.read_at(self.offset, buffer)? {
            0 if closed => Ok(Piece::End),
            0 => Ok(Piece::Nothing),
            count => {
                let offset = self.offset;
                self.offset += count as u64;
                state.followers.insert(self.key, self.offset);
                drop(state);
                self.capture.freed.notify_one();
                Ok(Piece::Bytes { offset, count })
            }
        }
    }

    /// Returns when there is more to read, or the stream was closed.
    pub(super) async fn changed(&mut self) {
        if self.progress.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.capture.state().followers.remove(&self.key);
        self.capture.freed.notify_one();
    }
}

#[cfg(test)]
#[path = "capture_tests.rs"]
mod tests;
