//! What was observed of a job: the moments of its desktop, which are events, their pictures, which are blobs, and what it used.

use sandyard_api::{FrameEvent, UsageSample};

use super::{AppError, ErrorCode, JobAccess, Yard};
use crate::auth::AccessScope;
use crate::blobs::{BlobErrorKind, BlobKey, BlobNoun, BlobRange};
use crate::job::EventRow;

/// Moments in one page.
const PAGE_MOMENTS: usize = 1000;

/// Samples in a series: more than a job of the longest time limit has.
const MAX_SAMPLES: usize = 20_000;

/// A moment of a recording: the desktop looked like this from then on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedMoment {
    /// Number of its event.
    pub event: u64,
    /// Time of the commit, in milliseconds since the epoch.
    pub at_ms: i64,
    /// The picture and its size.
    pub frame: FrameEvent,
}

/// A page of moments, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedMoments {
    /// The moments, in order.
    pub moments: Vec<RecordedMoment>,
    /// The event after which the next page begins; `None` at the end.
    pub next: Option<u64>,
}

impl Yard {
    /// Returns the moments after an event that are not before one time and not after another.
    pub async fn recorded_moments(
        &self,
        job: &JobAccess,
        after: u64,
        (from_ms, to_ms): (i64, i64),
    ) -> Result<RecordedMoments, AppError> {
        job.require(AccessScope::ReadJobs)?;
        self.row(job.id()).await?;
        let rows = self.context.store.events_of_kind(job.id(), "frame", after, PAGE_MOMENTS).await?;
        let last = rows.last().map(|row| (row.id, row.at_ms));
        // A page that was cut may be followed by moments of that time, even if none of its own is.
        let next = last.filter(|(_, at_ms)| rows.len() == PAGE_MOMENTS && *at_ms <= to_ms);
        let within = |row: &EventRow| row.at_ms >= from_ms && row.at_ms <= to_ms;
        let moments = rows.into_iter().filter(within).filter_map(moment).collect();
        Ok(RecordedMoments { moments, next: next.map(|(id, _)| id) })
    }

    /// Returns the samples of what the job used, oldest first. There are a few thousand of them at most.
    pub async fn usage_series(&self, job: &JobAccess) -> Result<Vec<(i64, UsageSample)>, AppError> {
        job.require(AccessScope::ReadJobs)?;
        self.row(job.id()).await?;
        let rows = self.context.store.events_of_kind(job.id(), "usage", 0, MAX_SAMPLES).await?;
        let sample = |row: EventRow| Some((row.at_ms, serde_json::from_value(row.data).ok()?));
        Ok(rows.into_iter().filter_map(sample).collect())
    }

    /// Returns a picture of the recording, a PNG.
    pub async fn recorded_picture(&self, job: &JobAccess, picture: u64) -> Result<Vec<u8>, AppError> {
        job.require(AccessScope::ReadJobs)?;
        let row = self.row(job.id()).await?;
        // A blob beyond the row's count belongs to a moment that was never committed.
        if picture > row.recording.pictures {
            return Err(no_picture());
        }
        let key = BlobKey::new(job.id(), BlobNoun::Frame(picture));
        match self.context.blobs.read(&key, BlobRange::Whole).await {
            Ok(png) => Ok(png.into()),
            Err(error) if error.kind == BlobErrorKind::NotFound => Err(no_picture()),
            Err(error) => Err(AppError::internal(&error)),
        }
    }
}

fn moment(row: EventRow) -> Option<RecordedMoment> {
    let frame = serde_json::from_value(row.data).ok()?;
    Some(RecordedMoment { event: row.id, at_ms: row.at_ms, frame })
}

fn no_picture() -> AppError {
    AppError::new(ErrorCode::NoScreenshot, "the recording of this job has no such picture")
        .hint("GET /jobs/{id}/frames lists the moments and their pictures")
}
