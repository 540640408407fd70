//! The use cases: everything a client can ask of a yard, one file for each.
//!
//! [`Yard`] is the façade `http` builds on. It checks, asks the store, wakes reconcile and answers; what takes time
//! happens in reconcile. Every answer is read from the store, so it is true after a crash too.

mod errors;
mod images;
mod model;

use std::fs::File;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use sandyard_protocol::OutputStream;
use sandyard_sandbox::driver::Driver;
use sandyard_sandbox::machine::Machine;

pub use errors::{AppError, ErrorKind};
pub use images::{Flavour, ImageState, Images};
pub use model::{
    DriverStatus, Floor, IdempotencyKey, InputFile, IsolationStatus, JobEvent, JobFailure, JobFilter, JobKind,
    JobPage, JobState, JobStatus, NewJob, RequestedLimits, SandboxState, Scheduled, TicketPurpose,
};

use crate::config::ServerConfig;
use crate::job_id::JobId;

/// A running yard. Clones are handles to the same one.
#[derive(Clone)]
pub struct Yard {}

/// A stream of events that ends after the terminal state's event.
pub type EventStream = Pin<Box<dyn Stream<Item = Result<JobEvent, AppError>> + Send>>;

/// A job's output as bytes.
pub struct LogStream {
    /// Bytes that will come, if the job has ended; a running job's log ends where it is now.
    pub length: u64,
    /// The bytes, head, marker line, tail.
    pub bytes: Pin<Box<dyn Stream<Item = Result<Bytes, std::io::Error>> + Send>>,
}

/// An artifact, open for reading: it stays readable even if retention removes it meanwhile.
pub struct Download {
    /// The zip.
    pub file: File,
    /// Its length.
    pub length: u64,
    /// Its SHA-256 in hexadecimal, an entity tag.
    pub sha256: String,
    /// A name for the file, safe for a header: `<name or id>.zip` in ASCII.
    pub file_name: String,
}

impl Yard {
    /// Opens the data directory, adopts what is alive, removes what nobody owns, and begins to work.
    pub async fn start(
        config: ServerConfig,
        drivers: Vec<Arc<dyn Driver>>,
        images: Arc<dyn Images>,
    ) -> Result<Self, StartYardError> {
        unimplemented!()
    }

    /// Stops claiming, lets go of all jobs and returns when nothing is left running here. Jobs go on in their sandboxes.
    pub async fn stop(&self) {
        unimplemented!()
    }

    /// Makes a job, durably, and answers at once.
    pub async fn schedule(&self, job: NewJob, key: Option<IdempotencyKey>) -> Result<Scheduled, AppError> {
        unimplemented!()
    }

    /// The job as it is now. `with_output` adds the tails.
    pub async fn status(&self, id: &JobId, output: WithOutput) -> Result<JobStatus, AppError> {
        unimplemented!()
    }

    /// The job when its state is another than now, has ended already, or the time is up.
    pub async fn status_after_change(&self, id: &JobId, output: WithOutput, wait: Duration) -> Result<JobStatus, AppError> {
        unimplemented!()
    }

    /// A page of jobs, newest first. An unknown cursor is `Invalid`.
    pub async fn list(&self, filter: &JobFilter, limit: usize, cursor: Option<&str>) -> Result<JobPage, AppError> {
        unimplemented!()
    }

    /// Events with an id above `after`, then new ones as they come, until the job has ended.
    pub async fn events(&self, id: &JobId, after: u64) -> Result<EventStream, AppError> {
        unimplemented!()
    }

    /// The output so far.
    pub async fn logs(&self, id: &JobId, stream: OutputStream) -> Result<LogStream, AppError> {
        unimplemented!()
    }

    /// Ends a job; harmless if it has ended. Answers the status after the request is committed.
    pub async fn cancel(&self, id: &JobId) -> Result<JobStatus, AppError> {
        unimplemented!()
    }

    /// Answers a waiting job; a conflict unless it waits.
    pub async fn reply(&self, id: &JobId, text: String) -> Result<(), AppError> {
        unimplemented!()
    }

    /// Removes a job and all that is of it. From then on it is unknown.
    pub async fn delete(&self, id: &JobId) -> Result<(), AppError> {
        unimplemented!()
    }

    /// The artifact of an ended job; a conflict before.
    pub async fn download(&self, id: &JobId) -> Result<Download, AppError> {
        unimplemented!()
    }

    /// A ticket: single use, 30 s, for this job and purpose.
    pub async fn make_ticket(&self, id: &JobId, purpose: TicketPurpose) -> Result<String, AppError> {
        unimplemented!()
    }

    /// Uses a ticket up; `false` if it is not good for this.
    pub fn redeem_ticket(&self, id: &JobId, purpose: TicketPurpose, ticket: &str) -> bool {
        unimplemented!()
    }

    /// The live machine of a job, for tools; a conflict unless `sandbox` is `live`.
    pub fn machine(&self, id: &JobId) -> Result<Arc<Machine>, AppError> {
        unimplemented!()
    }

    /// All drivers and whether they work here.
    pub async fn drivers(&self) -> Vec<DriverStatus> {
        unimplemented!()
    }

    /// How far the images are.
    pub fn image(&self, flavour: Flavour) -> ImageState {
        unimplemented!()
    }

    /// Whether work can be accepted.
    pub async fn ready(&self) -> Result<(), AppError> {
        unimplemented!()
    }

    /// Prometheus text of the yard's counters; `http` may append its own.
    pub fn metrics(&self) -> String {
        unimplemented!()
    }
}

/// Whether the tails of the output are wanted; they cost a second lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WithOutput {
    /// Up to 64 KiB of each stream.
    Tails,
    /// None.
    Without,
}

/// A yard can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum StartYardError {
}
