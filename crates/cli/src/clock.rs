//! This machine's clock: the one place of the command that reads the time of day.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sandyard_api::Timestamp;

/// Returns the current time.
pub(crate) fn now() -> Timestamp {
    Timestamp::from_unix_ms(i64::try_from(since_epoch().as_millis()).unwrap_or(i64::MAX))
}

/// Returns the current time in seconds since 1970.
pub(crate) fn unix_s() -> u64 {
    since_epoch().as_secs()
}

/// Returns the time since 1970. A clock before 1970 counts as 1970.
fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
