//! The shared parts of a running yard: the context, the live machines, admission, counters, and the audit recorder.

mod admission;
mod claim;
mod context;
mod machines;
mod metrics;
mod recorder;
mod status_cache;
mod waiting_line;

pub(crate) use admission::{Admission, Permit, SandboxRoom};
pub(crate) use context::YardContext;
pub(crate) use machines::{Machines, Reachable};
pub(crate) use metrics::{Metrics, count};
pub(crate) use recorder::{AuditRecorder, RecordedCall};
pub(crate) use status_cache::StatusCache;
pub(crate) use waiting_line::{QueueRound, WaitingLine};
