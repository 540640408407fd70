//! The lock on a data folder: one server at a time.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use super::ServeError;

/// Longest wait for the lock. A server that was killed a moment ago may have left a child that holds the lock
/// until it executes another program.
const LOCK_TIMEOUT: Duration = Duration::from_secs(3);
/// Delay between two attempts.
const LOCK_RETRY: Duration = Duration::from_millis(20);

/// Locks a data folder. The lock is held while the returned file is open, so the kernel releases it however this process ends.
pub(super) async fn lock(data: &Path) -> Result<File, ServeError> {
    let path = data.join("server.lock");
    let failed = |source| ServeError::Data { action: "lock", path: path.clone(), source };
    let mut file = OpenOptions::new()
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
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < deadline => {
                tokio::time::sleep(LOCK_RETRY).await;
            }
            taken => break taken,
        }
    };
    match taken {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut pid = String::new();
            // The pid is only for the message; the lock itself decides.
            drop(file.read_to_string(&mut pid));
            let owner = if pid.trim().is_empty() { String::new() } else { format!(" (pid {})", pid.trim()) };
            return Err(ServeError::InUse { path: data.to_owned(), owner });
        }
        Err(error) => return Err(failed(error.into())),
    }
    // Only the holder of the lock writes its pid, so the file never names a server that does not run.
    file.set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .map_err(failed)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_yard_has_one_server_at_a_time() {
        let data = tempfile::tempdir().unwrap();
        let first = lock(data.path()).await.unwrap();
        let error = lock(data.path()).await.unwrap_err();
        let own = std::process::id();
        assert!(error.to_string().ends_with(&format!("is served by another process (pid {own})")), "{error}");
        drop(first);
        lock(data.path()).await.unwrap();
    }
}
