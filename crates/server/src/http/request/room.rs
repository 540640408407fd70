//! One budget of memory for all request bodies that are read whole.
//!
//! A small body needs none of it: the bound on connections bounds those. A larger one takes room as its bytes arrive, because
//! an announced length costs nothing. When the budget is used up, the body that has gained nothing for the longest time gives
//! its room to one that moves on; if all of them move, the newcomer waits a moment and is then refused.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use sandyard_api::{ApiError, ErrorCode};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// A body up to this length needs no room: four thousand connections hold 64 MiB of them.
pub(in crate::http) const FREE_BYTES: usize = 16 * 1024;
/// Room is taken in steps of this size.
const STEP_BYTES: usize = 64 * 1024;
/// A body that did not gain a step within this time may lose its room. A line of 32 KiB/s is faster.
const STALL_TIME: Duration = Duration::from_secs(2);
/// Longest wait of a body for room.
const ROOM_TIMEOUT: Duration = Duration::from_secs(5);

/// The budget. Its room is given back when a [`BodyRoom`] is dropped.
#[derive(Debug)]
pub(in crate::http) struct BodyBudget {
    limit_bytes: usize,
    state: Mutex<BodyBudgetState>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct BodyBudgetState {
    held_bytes: usize,
    peak_bytes: usize,
    next_number: u64,
    /// The bodies that wait for their client, by number.
    unfinished: BTreeMap<u64, UnfinishedBody>,
}

#[derive(Debug)]
struct UnfinishedBody {
    grown_at: Instant,
    give_up: CancellationToken,
}

/// The server has no memory for the body, or took it back from a client that stalled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) struct NoBodyRoom;

impl From<NoBodyRoom> for ApiError {
    fn from(_: NoBodyRoom) -> Self {
        Self::new(ErrorCode::Overloaded, "too many large requests are being read")
            .with_hint("try again in a moment; large files go to PUT /jobs/{id}/files/{path}, which needs no room here")
            .with_retry_after_s(2)
    }
}

impl BodyBudget {
    pub(in crate::http) fn new(limit_bytes: usize) -> Arc<Self> {
        Arc::new(Self { limit_bytes, state: Mutex::default(), freed: Notify::new() })
    }

    /// Room for a body of which nothing has arrived.
    pub(in crate::http) fn empty_room(self: &Arc<Self>) -> BodyRoom {
        BodyRoom { budget: Arc::clone(self), held_bytes: 0, reading: None }
    }

    /// Takes `bytes` more; otherwise asks the body that stalls for the longest time to give its room up.
    fn take(&self, bytes: usize) -> bool {
        let mut state = self.state.lock();
        if state.held_bytes + bytes <= self.limit_bytes {
            state.held_bytes += bytes;
            state.peak_bytes = state.peak_bytes.max(state.held_bytes);
            return true;
        }
        let stalled = state.unfinished.iter().min_by_key(|(_, body)| body.grown_at);
        if let Some((&number, body)) = stalled
            && body.grown_at.elapsed() >= STALL_TIME
        {
            body.give_up.cancel();
            state.unfinished.remove(&number);
        }
        false
    }

    /// Room in use.
    pub(in crate::http) fn held_bytes(&self) -> usize {
        self.state.lock().held_bytes
    }

    /// Most room in use since the last call.
    pub(in crate::http) fn take_peak_bytes(&self) -> usize {
        let mut state = self.state.lock();
        let held_bytes = state.held_bytes;
        std::mem::replace(&mut state.peak_bytes, held_bytes)
    }

    fn give_back(&self, bytes: usize) {
        self.state.lock().held_bytes -= bytes;
        self.freed.notify_waiters();
    }
}

/// The room of one body.
#[derive(Debug)]
pub(in crate::http) struct BodyRoom {
    budget: Arc<BodyBudget>,
    held_bytes: usize,
    /// While the client sends: the number among the unfinished bodies, and the sign to give up.
    reading: Option<(u64, CancellationToken)>,
}

impl BodyRoom {
    /// Makes room for a body of which `bytes` are here.
    pub(in crate::http) async fn grow_to(&mut self, bytes: usize) -> Result<(), NoBodyRoom> {
        if bytes <= FREE_BYTES || bytes <= self.held_bytes {
            return Ok(());
        }
        // A body that waits for the server does not stall.
        self.stop_reading();
        let wanted = bytes.next_multiple_of(STEP_BYTES) - self.held_bytes;
        let taken = tokio::time::timeout(ROOM_TIMEOUT, async {
            loop {
                let freed = self.budget.freed.notified();
                tokio::pin!(freed);
                // Before the look: room that is given back in between must wake this task.
                freed.as_mut().enable();
                if self.budget.take(wanted) {
                    return;
                }
                // Time alone makes a body stall, so it is looked at again without a sign, too.
                let _ = tokio::time::timeout(STALL_TIME / 8, freed).await;
            }
        });
        taken.await.map_err(|_| NoBodyRoom)?;
        self.held_bytes += wanted;
        self.start_reading();
        Ok(())
    }

    /// Returns when the budget takes the room back. Never for a body without room.
    pub(in crate::http) async fn taken_back(&self) {
        match &self.reading {
            Some((_, give_up)) => give_up.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// The body is whole: it keeps its room until it is dropped.
    pub(in crate::http) fn finish(mut self) -> Self {
        self.stop_reading();
        self
    }

    fn start_reading(&mut self) {
        let give_up = CancellationToken::new();
        let mut state = self.budget.state.lock();
        let number = state.next_number;
        state.next_number += 1;
        let body = UnfinishedBody { grown_at: Instant::now(), give_up: give_up.clone() };
        state.unfinished.insert(number, body);
        drop(state);
        self.reading = Some((number, give_up));
    }

    fn stop_reading(&mut self) {
        if let Some((number, _)) = self.reading.take() {
            self.budget.state.lock().unfinished.remove(&number);
        }
    }
}

impl Drop for BodyRoom {
    fn drop(&mut self) {
        self.stop_reading();
        if self.held_bytes > 0 {
            self.budget.give_back(self.held_bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn small_bodies_need_no_room_and_large_ones_share_it() {
        let budget = BodyBudget::new(4 * STEP_BYTES);
        let mut large = budget.empty_room();
        large.grow_to(4 * STEP_BYTES).await.unwrap();
        let large = large.finish();
        let mut small = budget.empty_room();
        small.grow_to(FREE_BYTES).await.unwrap();
        assert_eq!(small.grow_to(FREE_BYTES + 1).await, Err(NoBodyRoom), "the whole body keeps its room");
        drop(large);
        small.grow_to(4 * STEP_BYTES).await.unwrap();
        drop(small);
        assert_eq!(budget.state.lock().held_bytes, 0);
        assert!(budget.state.lock().unfinished.is_empty());
    }

    #[tokio::test]
    async fn f5_a_body_that_stalls_gives_its_room_to_one_that_moves() {
        let budget = BodyBudget::new(2 * STEP_BYTES);
        let mut stalled = budget.empty_room();
        stalled.grow_to(2 * STEP_BYTES).await.unwrap();
        let holder = tokio::spawn(async move {
            stalled.taken_back().await;
        });
        let mut moving = budget.empty_room();
        moving.grow_to(STEP_BYTES).await.unwrap();
        holder.await.unwrap();
    }
}
