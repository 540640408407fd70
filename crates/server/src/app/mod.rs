//! The use cases: everything a client can ask of a yard, one file for each.
//!
//! [`Yard`] is the façade `http` builds on. It checks, asks the store, wakes reconcile and answers; what takes time
//! happens in reconcile. Every answer is read from the store, so it is true after a crash too.

mod archive;
mod around;
mod audit;
mod delete;
mod download;
mod errors;
mod events;
mod logs;
mod model;
mod open;
mod reply;
mod schedule;
mod screenshot;
mod status;
mod tickets;

use std::sync::Arc;

pub use crate::drivers::{ImageFlavour, ImageState, Images};
pub use crate::job::{
    FailureCode, Floor, GitSource, InputFile, IsolationStatus, JobFailure, JobFilter, JobKind, JobState,
    JobStatus, KnownStatus, NewJob, OnSilence, RequestedLimits, SandboxState, TaskOptions,
};
pub use audit::Audit;
pub use download::{Download, DownloadStream};
pub use errors::AppError;
pub use events::EventStream;
pub use logs::LogStream;
pub use model::{DriverStatus, IdempotencyKey, JobEvent, JobPage, Scheduled, TicketPurpose};
pub use open::StartYardError;
pub use sandyard_api::ErrorCode;
pub use status::WithOutput;

use self::open::Running;
use self::tickets::Tickets;
use crate::auth::Caller;
use crate::yard::YardContext;

/// A running yard. Clones are handles to the same one; when the last is dropped without `stop`, it ends as in a crash.
#[derive(Clone)]
pub struct Yard {
    context: Arc<YardContext>,
    tickets: Arc<Tickets>,
    running: Arc<Running>,
    /// Who uses this handle.
    caller: Caller,
}
