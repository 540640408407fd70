//! When the host last asked anything of this machine: a session that nobody uses ends by its idle limit.

use tokio::sync::watch;

use super::clock::{boot_ms, sleep_until};

/// The number of requests being served, and the time of the last one.
#[derive(Debug)]
pub(super) struct RequestActivity(watch::Sender<RequestCount>);

#[derive(Debug, Clone, Copy)]
struct RequestCount {
    running: usize,
    /// When a request last ended, in time since boot.
    last_ms: u64,
}

impl Default for RequestActivity {
    fn default() -> Self {
        Self(watch::Sender::new(RequestCount { running: 0, last_ms: boot_ms() }))
    }
}

/// One request; the machine counts as used until this is dropped.
pub(super) struct ActiveRequest<'a>(&'a RequestActivity);

impl Drop for ActiveRequest<'_> {
    fn drop(&mut self) {
        self.0
            .0
            .send_modify(|count| *count = RequestCount { running: count.running - 1, last_ms: boot_ms() });
    }
}

impl RequestActivity {
    /// Counts a request until the returned guard is dropped.
    pub(super) fn begin(&self) -> ActiveRequest<'_> {
        self.0.send_modify(|count| count.running += 1);
        ActiveRequest(self)
    }

    /// Returns when no request ran for the time of the limit; never, without a limit.
    pub(super) async fn unused_for(&self, limit_ms: Option<u64>) {
        let Some(limit_ms) = limit_ms else { return std::future::pending().await };
        let mut counts = self.0.subscribe();
        loop {
            let RequestCount { running, last_ms } = *counts.borrow_and_update();
            let until = (running == 0).then(|| last_ms.saturating_add(limit_ms));
            // A request that begins or ends restarts the wait. Cancelling loses nothing: the time is fixed and the count is a watch.
            tokio::select! {
                () = sleep_until(until) => return,
                // `self` holds the sender, so this never reports a closed channel.
                _ = counts.changed() => {}
            }
        }
    }
}
