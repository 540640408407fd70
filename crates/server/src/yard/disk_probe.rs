//! Tells whether the data directory can be written, by writing to it.

use std::io;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use crate::disk;

/// Age up to which an answer is given again: anybody may ask, and each attempt writes.
const ANSWER_AGE: Duration = Duration::from_secs(1);
/// Longest wait for a disk that hangs.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// A file that is written and removed again.
#[derive(Debug)]
pub(crate) struct DiskProbe {
    path: PathBuf,
    last: Mutex<Option<(Instant, Result<(), String>)>>,
}

impl DiskProbe {
    /// The probe of a data directory.
    pub(crate) fn new(data: &Path) -> Self {
        Self { path: data.join("probe"), last: Mutex::default() }
    }

    /// Fails with the reason why the directory can't be written.
    pub(crate) async fn check(&self) -> Result<(), String> {
        let mut last = self.last.lock().await;
        if let Some((at, answer)) = last.as_ref()
            && at.elapsed() < ANSWER_AGE
        {
            return answer.clone();
        }
        let path = self.path.clone();
        let writing = tokio::time::timeout(WRITE_TIMEOUT, disk::blocking(move || write(&path)));
        let answer = match writing.await {
            Ok(written) => written.map_err(|error| error.to_string()),
            Err(_) => Err(format!("a write took longer than {} s", WRITE_TIMEOUT.as_secs())),
        };
        *last = Some((Instant::now(), answer.clone()));
        answer
    }
}

fn write(path: &Path) -> io::Result<()> {
    disk::new_file(path)?.write_all(b"ready\n")?;
    disk::remove_file(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_folder_that_can_not_be_written_is_told_with_its_reason() {
        let data = tempfile::tempdir().unwrap();
        assert_eq!(DiskProbe::new(data.path()).check().await, Ok(()));
        assert_eq!(std::fs::read_dir(data.path()).unwrap().count(), 0);
        let missing = DiskProbe::new(&data.path().join("missing"));
        assert!(missing.check().await.unwrap_err().contains("No such file"));
    }
}
