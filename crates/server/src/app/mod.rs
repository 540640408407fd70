//! The use cases: everything a client can ask of a yard, one file for each.
//!
//! [`Yard`] is the façade that `http` builds on. A use case takes the caller first: as a [`Caller`](crate::auth::Caller), or
//! as the [`JobAccess`] that [`Yard::job`] made for one job of that caller. It checks, asks the store, wakes `lifecycle` and
//! answers; work that takes time happens in `lifecycle`. Every answer is read from the store, so it is true after a crash.

mod access;
mod archive;
mod audit;
mod brief;
mod brief_cache;
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
mod open_tickets;
mod owner_cache;
mod recall;
mod recording;
mod reply;
mod request;
mod running_yard;
mod schedule;
mod screenshot;
mod stats;
mod status;
mod terminal_cast;
mod tickets;
mod yard_task;

pub use crate::drivers::{ImageFlavour, ImageState, Images};
pub use crate::gateways::egress::egress_preset_names;
pub use crate::job::{
    FailureCode, Floor, FullJobStatus, GitSource, InputFile, IsolationStatus, JobBrief, JobFailure,
    JobFilter, JobKind, JobState, JobWait, KnownStatus, NewJob, OnSilence, RequestedLimits, RoomShortage,
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
pub use running_yard::Yard;
pub use sandyard_api::ErrorCode;
pub use stats::JobMeasure;
pub use status::{AwaitedChange, WithOutput};
pub use terminal_cast::TerminalCast;
