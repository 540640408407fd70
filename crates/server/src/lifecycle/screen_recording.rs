//! Records the desktop of a job over one link: takes pictures from the guest, stores each new one as a blob, and then reports it
//! for a commit of the session.
//!
//! The blob is durable before the row names it; a picture whose commit did not happen is replaced by the next one of its number. A
//! desktop that looks as it did before costs an event and no picture.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use sandyard_api::FrameEvent;
use sandyard_protocol::ErrorChain;
use sandyard_sandbox::machine::{Machine, ScreenPicture};
use tokio::sync::mpsc;

use crate::audit::Sha256Digest;
use crate::blobs::{BlobKey, BlobNoun, Durability};
use crate::job::{Change, JobId, JobRow, RecordingRow, StoredEvent};
use crate::yard::YardContext;

/// Time between two pictures at the beginning.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);
/// Moments after which the time between two pictures doubles: a recording of any length shows all of it, the beginning in detail.
const MOMENTS_AT_ONE_INTERVAL: u64 = 600;
/// Most doublings of the interval: then a picture in about a minute.
const MAX_DOUBLINGS: u64 = 6;
/// Moments of one recording. A desktop that never rests needs a week for them.
const MAX_MOMENTS: u64 = 15_000;
const MIB: u64 = 1024 * 1024;

/// Records until the link is lost, the session ends, or the recording reaches a bound.
pub(super) async fn record(
    context: Arc<YardContext>,
    row: &JobRow,
    machine: Arc<Machine>,
    changes: mpsc::Sender<Change>,
) {
    let bytes_limit = row.limits.recording_mib.saturating_mul(MIB);
    if bytes_limit == 0 {
        return;
    }
    // An image without a desktop, or a guest of a generation before.
    let Ok(Some(mut desktop)) = machine.record_desktop().await else { return };
    let (job, recording, known) = (row.id.clone(), row.recording, HashMap::new());
    let mut writer = FrameWriter { context, job, recording, bytes_limit, known };
    while let Ok(picture) = desktop.next(interval(writer.recording.moments)).await {
        match writer.write(picture).await {
            FrameOutcome::Recorded(change) => {
                if changes.send(change).await.is_err() {
                    return;
                }
            }
            FrameOutcome::Skipped => {}
            FrameOutcome::Full => {
                let text = "the recording of the desktop ends here: it has reached its limit";
                let _ = changes.send(Change::Event(StoredEvent::Note { text: text.to_owned() })).await;
                return;
            }
        }
    }
}

/// The time before the next picture of a recording with that many moments.
fn interval(moments: u64) -> Duration {
    let doublings = (moments / MOMENTS_AT_ONE_INTERVAL).min(MAX_DOUBLINGS);
    SHORTEST_INTERVAL * 2_u32.pow(u32::try_from(doublings).unwrap_or_default())
}

/// Stores pictures of one job.
struct FrameWriter {
    context: Arc<YardContext>,
    job: JobId,
    /// As it will be once everything that was reported is committed.
    recording: RecordingRow,
    bytes_limit: u64,
    /// Pictures of this link, by content. Another link stores them anew.
    known: HashMap<Sha256Digest, u64>,
}

enum FrameOutcome {
    Recorded(Change),
    /// The yard's disk has no room for it now.
    Skipped,
    /// The recording has reached a bound.
    Full,
}

impl FrameWriter {
    async fn write(&mut self, picture: ScreenPicture) -> FrameOutcome {
        let ScreenPicture { png, width, height } = picture;
        if self.recording.moments >= MAX_MOMENTS {
            return FrameOutcome::Full;
        }
        let digest = Sha256Digest::of(&png);
        let (number, bytes) = match self.known.get(&digest) {
            Some(number) => (*number, 0),
            None => {
                let bytes = png.len() as u64;
                if self.recording.bytes.saturating_add(bytes) > self.bytes_limit {
                    return FrameOutcome::Full;
                }
                if !self.store(png).await {
                    return FrameOutcome::Skipped;
                }
                self.recording.pictures += 1;
                self.recording.bytes += bytes;
                self.known.insert(digest, self.recording.pictures);
                (self.recording.pictures, bytes)
            }
        };
        self.recording.moments += 1;
        FrameOutcome::Recorded(Change::Frame { frame: FrameEvent { picture: number, width, height }, bytes })
    }

    /// Stores the next picture. False if that failed: a job goes on without its recording.
    async fn store(&self, png: Vec<u8>) -> bool {
        if !self.context.admission.may_write(png.len() as u64) {
            return false;
        }
        let key = BlobKey::new(&self.job, BlobNoun::Frame(self.recording.pictures + 1));
        let stored = self.context.blobs.put_all(vec![(key, png.into())], Durability::Synced).await;
        if let Err(error) = &stored {
            tracing::warn!(job = %self.job, error = %ErrorChain(error), "a picture of the desktop was not stored");
        }
        stored.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_recordings_become_coarser_and_never_end_early() {
        assert_eq!(interval(0), Duration::from_secs(1));
        assert_eq!(interval(MOMENTS_AT_ONE_INTERVAL), Duration::from_secs(2));
        assert_eq!(interval(u64::MAX), Duration::from_secs(64));
        let whole: Duration = (0..MAX_MOMENTS).map(interval).sum();
        assert!(whole > Duration::from_secs(7 * 24 * 3600), "{whole:?}");
    }
}
