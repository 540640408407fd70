//! The use cases: everything a client can ask of a yard, one file for each.
//!
//! [`Yard`] is the façade that `http` builds on. A use case takes the caller first: as a [`Caller`](crate::auth::Caller), or
//! as the [`JobAccess`] that [`Yard::job`] made for one job of that caller. It checks, asks the store, wakes `lifecycle` and
//! answers; work that takes time happens in `lifecycle`. Every answer is read from the store, so it is true after a crash.

mod access;
mod archive;
mod audit;
mod brief;
mod delete;
mod download;
mod drivers;
mod errors;
mod events;
mod explanation;
mod extend;
mod health;
mod logs;
mod machine;
mod model;
mod open;
mod recall;
mod recording;
mod reply;
mod request;
mod schedule;
mod screenshot;
mod stats;
mod status;
mod terminal_cast;
mod tickets;

use std::sync::Arc;

pub use crate::drivers::{ImageFlavour, ImageState, Images};
pub use crate::job::{
    FailureCode, Floor, GitSource, InputFile, IsolationStatus, JobBrief, JobFailure, JobFilter, JobKind,
    JobState, JobStatus, JobWait, KnownStatus, NewJob, OnSilence, RequestedLimits, RoomShortage,
    SandboxState, TaskOptions,
};
pub use crate::recall::{
    FileVersions, RecallQuery, RecalledPassage, RecalledPassages, RecalledPlace, origin_word,
};
pub use crate::store::{BadCopyPlace, CopyPlace, CopyProgress, CopyStoreError, copy_store};
pub use access::JobAccess;
pub use audit::{Audit, YardStart};
pub use download::{Download, DownloadStream};
pub use errors::AppError;
pub use events::JobEventStream;
pub use explanation::ResultExplanation;
pub use logs::LogStream;
pub use model::{CommittedEvent, DriverStatus, IdempotencyKey, JobPage, Scheduled, TicketTarget};
pub use open::StartYardError;
pub use recall::ModelContext;
pub use recording::{RecordedMoment, RecordedMoments};
pub use sandyard_api::ErrorCode;
pub use stats::JobMeasure;
pub use status::{AwaitedChange, WithOutput};
pub use terminal_cast::TerminalCast;

use self::access::OwnerCache;
use self::brief::BriefCache;
use self::open::YardTask;
use self::tickets::Tickets;
use crate::yard::YardContext;

/// A running yard. Clones are handles to the same one; when the last is dropped without `stop`, it ends as in a crash.
#[derive(Clone)]
pub struct Yard {
    context: Arc<YardContext>,
    tickets: Arc<Tickets>,
    owners: Arc<OwnerCache>,
    briefs: Arc<BriefCache>,
    running: Arc<YardTask>,
}
