//! What was observed of a job: its desktop and what it used.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Timestamp;

/// The recording of a job's desktop.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RecordingView {
    /// Number of recorded moments.
    pub moments: u64,
    /// Size of all pictures.
    pub bytes: u64,
    /// Path of the moments.
    pub frames_url: String,
}

/// A page of the moments of a recorded desktop, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FramesView {
    /// The moments.
    pub frames: Vec<FrameView>,
    /// The next page begins after this event; `null` at the end.
    pub next: Option<u64>,
}

/// A moment of a recorded desktop: it looked like this until the next one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FrameView {
    /// Number of the event.
    pub event: u64,
    /// Time of recording.
    pub at: Timestamp,
    /// Number of the picture at `/jobs/{id}/frames/{picture}`.
    pub picture: u64,
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
}

/// What a job used over time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UsageSeriesView {
    /// The samples, oldest first.
    pub samples: Vec<UsageSampleView>,
}

/// What a job had used at a time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UsageSampleView {
    /// Time of the sample.
    pub at: Timestamp,
    /// The sample.
    #[serde(flatten)]
    pub used: UsageSample,
}

/// What a job has used at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UsageSample {
    /// Processor time since the start of the sandbox.
    pub cpu_s: f64,
    /// Memory in use; the highest until then if the driver can't tell.
    pub memory_bytes: u64,
    /// Bytes sent to and received from the network.
    pub egress_bytes: u64,
    /// Tokens sent to and received from models.
    pub tokens: u64,
    /// Money spent on models.
    pub usd: f64,
}
