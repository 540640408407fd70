//! The lock on a data folder: one server at a time.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use super::ServeError;

/// Longest wait for the lock. The privileged process of a server that was killed a moment ago holds it until it has let go of its
/// drivers.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
/// Word between the pid and the user of a server in the lock file.
const USER: &str = "user";
/// Delay between two attempts.
const LOCK_RETRY: Duration = Duration::from_millis(20);
/// Longest text of a lock file that is read.
const MAX_TEXT_BYTES: u64 = 100;

/// A locked data folder. The lock is held while the file is open in any process, so the kernel releases it however they end.
#[derive(Debug)]
pub(super) struct YardHold {
    pub(super) file: File,
    /// The user of the last server that settled in the folder; `None` if that was root or if there was none.
    pub(super) last_user: Option<u32>,
}

impl YardHold {
    /// Records the user that all files of the server belong to now.
    pub(super) fn settle(&mut self, user: u32) -> io::Result<()> {
        self.write(&format!("{} {USER} {user}", std::process::id()))
    }

    /// Only the holder of the lock writes the file, so it never names a server that does not run.
    fn write(&mut self, text: &str) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.rewind()?;
        writeln!(self.file, "{text}")
    }
}

/// Locks a data folder. Blocks while another process holds it, for a while.
pub(super) fn lock(data: &Path) -> Result<YardHold, ServeError> {
    let path = data.join("server.lock");
    let failed = |source| ServeError::Data { action: "lock", path: path.clone(), source };
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(failed)?;
    let deadline = Instant::now() + LOCK_TIMEOUT;
    let taken = loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < deadline => std::thread::sleep(LOCK_RETRY),
            taken => break taken,
        }
    };
    let mut text = String::new();
    // Only for the message below and to save work; the lock itself decides.
    drop((&file).take(MAX_TEXT_BYTES).read_to_string(&mut text));
    let words: Vec<_> = text.split_whitespace().collect();
    match taken {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let owner = words.first().map(|pid| format!(" (pid {pid})")).unwrap_or_default();
            return Err(ServeError::InUse { path: data.to_owned(), owner });
        }
        Err(error) => return Err(failed(error.into())),
    }
    let last_user = match words[..] {
        [_, USER, user] => user.parse().ok(),
        _ => None,
    };
    let mut hold = YardHold { file, last_user };
    hold.write(&std::process::id().to_string()).map_err(failed)?;
    Ok(hold)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_yard_has_one_server_at_a_time_and_knows_the_last_ones_user() {
        let data = tempfile::tempdir().unwrap();
        let mut first = lock(data.path()).unwrap();
        assert_eq!(first.last_user, None);
        first.settle(65_530).unwrap();
        let error = lock(data.path()).unwrap_err();
        let own = std::process::id();
        assert!(error.to_string().ends_with(&format!("is served by another process (pid {own})")), "{error}");
        drop(first);
        assert_eq!(lock(data.path()).unwrap().last_user, Some(65_530));
        // A server of root that does not settle may have left files of root.
        assert_eq!(lock(data.path()).unwrap().last_user, None);
    }
}
