//! The use cases: everything a client can ask of a yard, one file for each.
//!
//! [`Yard`] is the façade `http` builds on. It checks, asks the store, wakes reconcile and answers; what takes time
//! happens in reconcile. Every answer is read from the store, so it is true after a crash too.

mod archive;
mod around;
mod audit;
mod delete;
mod download;
mod ended;
mod errors;
mod events;
mod images;
mod logs;
mod model;
mod open;
mod reply;
mod schedule;
mod screenshot;
mod status;
mod tickets;

use std::sync::Arc;

pub use audit::Audit;
pub(crate) use audit::{head as audit_head, lines as audit_lines};
pub use download::Download;
pub(crate) use ended::EndedJobs;
pub use errors::AppError;
pub(crate) use errors::chain;
pub use events::EventStream;
pub use images::{Flavour, ImageState, Images};
pub use logs::LogStream;
pub use model::{
    DriverStatus, FailureCode, Floor, GitSource, IdempotencyKey, InputFile, IsolationStatus, JobEvent,
    JobFailure, JobFilter, JobKind, JobPage, JobState, JobStatus, KnownStatus, NewJob, OnSilence,
    RequestedLimits, SandboxState, Scheduled, TaskOptions, TicketPurpose,
};
pub use open::StartYardError;
pub use sandyard_api::ErrorCode;
pub use status::WithOutput;

use self::open::Running;
use self::tickets::Tickets;
use crate::auth::Caller;
use crate::reconcile::Shared;

/// A running yard. Clones are handles to the same one; when the last is dropped without `stop`, it ends as in a crash.
#[derive(Clone)]
pub struct Yard {
    shared: Arc<Shared>,
    tickets: Arc<Tickets>,
    running: Arc<Running>,
    /// Who uses this handle.
    caller: Caller,
}
