//! The shared parts of a running yard: the context, the live machines, admission, counters, and the audit recorder.

mod admission;
mod claim;
mod context;
mod machines;
mod metrics;
mod recorder;
mod status_cache;

pub(crate) use admission::{Admission, Permit};
pub(crate) use context::YardContext;
pub(crate) use machines::{Machines, Reachable};
pub(crate) use metrics::{Metrics, count};
pub(crate) use recorder::{AuditRecorder, RecordedCall};
pub(crate) use status_cache::StatusCache;
