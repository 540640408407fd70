//! Waiting for what the kernel tells nobody about: a group that empties, a disk that is let go of.

use std::io;
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// The first pause between two looks, doubled up to `LONGEST_PAUSE`: most sandboxes are gone in about a millisecond.
const FIRST_PAUSE: Duration = Duration::from_micros(500);
const LONGEST_PAUSE: Duration = Duration::from_millis(5);

/// Asks until the answer is yes or time is up.
pub(crate) async fn poll(within: Duration, ask: impl Fn() -> io::Result<bool>) -> io::Result<()> {
    let deadline = Instant::now() + within;
    let mut pause = FIRST_PAUSE;
    while !ask()? {
        if Instant::now() >= deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    Ok(())
}
