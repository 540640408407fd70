//! The machine's clocks. Deadlines are stored as time since boot, which nobody can set back and which survives keeper.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

use crate::limits::LONGEST_SLEEP;

/// Milliseconds since boot, including time in suspension.
pub(super) fn boot_ms() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let milliseconds = u64::try_from(now.tv_nsec).unwrap_or(0) / 1_000_000;
    seconds.saturating_mul(1000).saturating_add(milliseconds)
}

/// Milliseconds since the epoch. For display only: this clock may jump.
pub(super) fn unix_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

/// Returns at this time since boot; never, if it is `None`.
pub(super) async fn sleep_until(deadline_ms: Option<u64>) {
    let Some(deadline_ms) = deadline_ms else { return std::future::pending().await };
    loop {
        let left = deadline_ms.saturating_sub(boot_ms());
        if left == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(left).min(LONGEST_SLEEP)).await;
    }
}

/// Returns at this instant; never, if it is `None`.
pub(super) async fn sleep_until_instant(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant.into()).await,
        None => std::future::pending().await,
    }
}

/// A duration in milliseconds.
pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
