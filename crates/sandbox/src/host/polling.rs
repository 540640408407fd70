//! Polling for states that the kernel does not announce: a group that empties, a disk that is released.

use std::io;
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// First delay between two checks, doubled up to `MAX_DELAY`. Most sandboxes are gone in about a millisecond.
const FIRST_DELAY: Duration = Duration::from_micros(500);
const MAX_DELAY: Duration = Duration::from_millis(5);

/// Calls `ask` until it returns true. Fails with `TimedOut` after `within`.
pub(crate) async fn poll(within: Duration, ask: impl Fn() -> io::Result<bool>) -> io::Result<()> {
    let deadline = Instant::now() + within;
    let mut pause = FIRST_DELAY;
    while !ask()? {
        if Instant::now() >= deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        sleep(pause).await;
        pause = (pause * 2).min(MAX_DELAY);
    }
    Ok(())
}
