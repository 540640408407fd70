//! Emptying the groups of a sandbox for good.

use std::io;
use std::time::Duration;

use super::groups::Groups;
use crate::host::polling;

/// Longest time for killed processes to end. SIGKILL is immediate except for processes in the middle of disk
/// I/O.
const EMPTY_TIMEOUT: Duration = Duration::from_secs(20);

impl Groups {
    /// Kills all processes in the groups and removes the groups.
    pub(crate) async fn clear(&self) -> io::Result<()> {
        let emptied = || {
            // Again in each round: without `cgroup.kill` a fork can escape a single pass.
            self.kill()?;
            match self.remove() {
                Ok(()) => Ok(true),
                // A process is still ending.
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(false),
                Err(error) => Err(error),
            }
        };
        polling::poll(EMPTY_TIMEOUT, emptied).await
    }
}
