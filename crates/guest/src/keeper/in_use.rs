//! Whether the host asks anything of this machine: a session that nobody uses may end by its idle limit.

use tokio::sync::watch;

use super::clock::{boot_ms, sleep_until};

/// Requests being served, and when there last was one.
#[derive(Debug)]
pub(super) struct InUse(watch::Sender<State>);

#[derive(Debug, Clone, Copy)]
struct State {
    requests: usize,
    last_ms: u64,
}

impl Default for InUse {
    fn default() -> Self {
        Self(watch::Sender::new(State { requests: 0, last_ms: boot_ms() }))
    }
}

/// One request; in use until it is dropped.
pub(super) struct Use<'a>(&'a InUse);

impl Drop for Use<'_> {
    fn drop(&mut self) {
        self.0.0.send_modify(|state| *state = State { requests: state.requests - 1, last_ms: boot_ms() });
    }
}

impl InUse {
    /// A request begins.
    pub(super) fn begin(&self) -> Use<'_> {
        self.0.send_modify(|state| state.requests += 1);
        Use(self)
    }

    /// Returns when nothing was asked for so long; never, without a limit.
    pub(super) async fn unused_for(&self, limit_ms: Option<u64>) {
        let Some(limit_ms) = limit_ms else { return std::future::pending().await };
        let mut states = self.0.subscribe();
        loop {
            let State { requests, last_ms } = *states.borrow_and_update();
            let until = (requests == 0).then(|| last_ms.saturating_add(limit_ms));
            tokio::select! {
                () = sleep_until(until) => return,
                // The sender is our own, so this is a change.
                _ = states.changed() => {}
            }
        }
    }
}
