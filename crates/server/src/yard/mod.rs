//! The shared parts of a running yard: the context, the live machines, admission, counters, and the audit recorder.

mod admission;
mod claim;
mod context;
mod disk_ledger;
mod disk_probe;
mod machines;
mod metrics;
mod recorder;
mod status_cache;
mod usage_reading;
mod usages;
mod verdicts;
mod waiting_line;

pub(crate) use admission::{Admission, Permit, RoomInUse, SandboxRoom};
pub(crate) use context::YardContext;
pub(crate) use disk_probe::DiskProbe;
pub(crate) use machines::{Machines, Reachable};
pub(crate) use metrics::{Metrics, count};
pub(crate) use recorder::{AuditRecorder, RecordedCall};
pub(crate) use status_cache::StatusCache;
pub(crate) use usages::Usages;
pub(crate) use verdicts::{JobVerdict, Verdicts};
pub(crate) use waiting_line::{QueueRound, WaitingLine};
