//! The output of one process stream, kept on disk and followed by any number of readers at their own pace.
//!
//! The job's own output stays until the host acknowledged it; when too much waits, nothing more is read and the job blocks
//! on its pipe, so nothing is ever lost. Other output stays for a while: a follower that keeps up sees all of it, and
//! may slow the process down a little; a follower that does not keep up gets the number of lost bytes.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use sandyard_protocol::limits::REPLAY_BYTES;
use tokio::sync::{Notify, watch};

use super::segments::{Segments, TakenBytes};
use crate::limits::{
    BYTES_PER_TURN, DOCUMENT_RESERVE, FOLLOWER_TIMEOUT, FULL_DISK_RETRY, JOB_RESERVE, SPOOL_BYTES,
};

const REPLAY: u64 = REPLAY_BYTES as u64;

/// How long output is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::keeper) enum Retention {
    /// Kept until the host acknowledges it. Used for the job's own output, which must never be lost.
    UntilAcknowledged,
    /// At least the last `REPLAY_BYTES` are kept. Used for the output of callers' processes.
    Recent,
}

/// The length of a stream so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::keeper) struct CaptureProgress {
    /// Offset after the last byte.
    pub(in crate::keeper) end: u64,
    /// True if no byte will follow.
    pub(in crate::keeper) closed: bool,
}

/// The output of one stream.
#[derive(Debug)]
pub(in crate::keeper) struct Capture {
    state: Mutex<CaptureState>,
    progress: watch::Sender<CaptureProgress>,
    freed: Notify,
    retention: Retention,
}

#[derive(Debug)]
struct CaptureState {
    segments: Segments,
    followers: BTreeMap<u64, u64>,
    next_follower: u64,
    last_output: Instant,
    blocked_since: Option<Instant>,
}

impl Capture {
    /// Opens a stream's directory.
    pub(in crate::keeper) fn open(directory: PathBuf, retention: Retention) -> io::Result<Self> {
        let reserve = match retention {
            Retention::UntilAcknowledged => DOCUMENT_RESERVE,
            Retention::Recent => JOB_RESERVE,
        };
        let segments = Segments::open(directory, reserve)?;
        let progress = watch::Sender::new(CaptureProgress { end: segments.end(), closed: false });
        let state = CaptureState {
            segments,
            followers: BTreeMap::new(),
            next_follower: 0,
            last_output: Instant::now(),
            blocked_since: None,
        };
        Ok(Self { state: Mutex::new(state), progress, freed: Notify::new(), retention })
    }

    /// The length of the stream, and its changes.
    pub(in crate::keeper) fn progress(&self) -> watch::Receiver<CaptureProgress> {
        self.progress.subscribe()
    }

    /// Offset after the last byte.
    pub(in crate::keeper) fn end(&self) -> u64 {
        self.progress.borrow().end
    }

    /// Bytes that the stream occupies in the spool.
    pub(in crate::keeper) fn bytes(&self) -> u64 {
        self.state().segments.bytes()
    }

    /// How long the process printed nothing. A process that is blocked because keeper does not read is not idle.
    pub(in crate::keeper) fn quiet_for(&self) -> Duration {
        let state = self.state();
        if state.blocked_since.is_some() { Duration::ZERO } else { state.last_output.elapsed() }
    }

    /// Takes bytes from a pipe, as far as there is room.
    pub(in crate::keeper) fn take_from_pipe(&self, pipe: impl AsFd) -> io::Result<TakenBytes> {
        self.take(|segments, room| segments.take_from_pipe(&pipe, room))
    }

    /// Takes bytes from a terminal, as far as there is room. Unlike with a pipe, bytes in between are lost if keeper is killed.
    pub(in crate::keeper) fn take_from_terminal(&self, terminal: impl AsFd) -> io::Result<TakenBytes> {
        self.take(|segments, room| {
            let mut buffer = [0; 16 * 1024];
            let most = buffer.len().min(room);
            match rustix::io::read(&terminal, &mut buffer[..most]) {
                // Linux returns EIO once the last process has closed the terminal.
                Ok(0) | Err(rustix::io::Errno::IO) => Ok(TakenBytes::End),
                Ok(count) => segments.append(&buffer[..count]),
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(TakenBytes::Nothing),
                Err(errno) => Err(errno.into()),
            }
        })
    }

    /// Adds bytes that came by another way than a descriptor, waiting for room.
    pub(in crate::keeper) async fn append(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.take(|segments, room| segments.append(&bytes[..bytes.len().min(room)]))? {
                TakenBytes::Bytes(count) => bytes = &bytes[count..],
                _ => self.wait_for_room().await,
            }
        }
        Ok(())
    }

    fn take(
        &self,
        take: impl FnOnce(&mut Segments, usize) -> io::Result<TakenBytes>,
    ) -> io::Result<TakenBytes> {
        let mut state = self.state();
        let room = usize::try_from(self.room(&state)).unwrap_or(usize::MAX).min(BYTES_PER_TURN);
        let taken = if room == 0 { TakenBytes::Full } else { take(&mut state.segments, room)? };
        match taken {
            TakenBytes::Bytes(_) => {
                state.last_output = Instant::now();
                state.blocked_since = None;
                if self.retention == Retention::Recent {
                    state.trim();
                }
                let end = state.segments.end();
                // Unlocked before the notice: followers that wake up lock the state at once.
                drop(state);
                self.progress.send_modify(|progress| progress.end = end);
            }
            // Either the bound of this capture is reached (`room` is 0), or the disk is full.
            TakenBytes::Full => {
                let since = *state.blocked_since.get_or_insert_with(Instant::now);
                if self.retention == Retention::Recent {
                    if room > 0 {
                        // The disk is full: the newest output is worth more than the oldest.
                        state.segments.drop_first();
                    } else if since.elapsed() >= FOLLOWER_TIMEOUT {
                        state.leave_slow_followers_behind();
                    }
                }
            }
            TakenBytes::Nothing | TakenBytes::End => state.blocked_since = None,
        }
        Ok(taken)
    }

    fn room(&self, state: &CaptureState) -> u64 {
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
    pub(in crate::keeper) async fn wait_for_room(&self) {
        // A notice that comes before this wait is kept by `Notify`; the retry serves a disk that others filled.
        let _ = tokio::time::timeout(FULL_DISK_RETRY, self.freed.notified()).await;
    }

    /// The host has everything before `offset`.
    pub(in crate::keeper) fn acknowledge(&self, offset: u64) {
        if self.state().segments.drop_before(offset) {
            self.freed.notify_one();
        }
    }

    /// Ends the stream: no byte will follow.
    pub(in crate::keeper) fn close(&self) {
        self.progress.send_modify(|progress| progress.closed = true);
    }

    fn state(&self) -> MutexGuard<'_, CaptureState> {
        self.state.lock()
    }
}

impl CaptureState {
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

/// The result of a follower's read.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::keeper) enum Piece {
    /// Bytes, beginning at an offset.
    Bytes {
        /// Offset of the first byte.
        offset: u64,
        count: usize,
    },
    /// This many bytes are no longer kept; the follower goes on after them.
    Lost(u64),
    /// Every byte so far was read; more may follow.
    Nothing,
    /// The stream is closed and all of it was read.
    End,
}

/// A reader at an offset of its own.
#[derive(Debug)]
pub(in crate::keeper) struct Follower {
    capture: Arc<Capture>,
    progress: watch::Receiver<CaptureProgress>,
    key: u64,
    offset: u64,
}

impl Follower {
    /// Starts at an offset; an offset beyond the end means the end.
    pub(in crate::keeper) fn new(capture: Arc<Capture>, offset: u64) -> Self {
        let progress = capture.progress();
        let mut state = capture.state();
        // The offset comes from a caller. One beyond the end would skip the bytes that come next.
        let offset = offset.min(state.segments.end());
        let key = state.next_follower;
        state.next_follower += 1;
        state.followers.insert(key, offset);
        drop(state);
        Self { capture, progress, key, offset }
    }

    pub(in crate::keeper) fn offset(&self) -> u64 {
        self.offset
    }

    /// The next bytes, at most as many as fit.
    pub(in crate::keeper) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Piece> {
        // Read before the bytes: a stream that is closed after this look is read once more, so its last bytes are not missed.
        let CaptureProgress { closed, .. } = *self.progress.borrow_and_update();
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
    pub(in crate::keeper) async fn changed(&mut self) {
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
