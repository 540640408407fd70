//! Makes the world match the rows: one loop that claims and cleans, one task for each job it owns, and a thread that holds the
//! leases of all of them.
//!
//! Every task is owned by the loop, which can end it at any await; the next owner continues from the row. A lease can run out
//! here, for example while the process is suspended. The loop then drops the job's task and claims the job anew with a higher
//! epoch, so that the store refuses every write of the old task.

mod adopting;
mod closing;
mod deadlines;
mod disk_watch;
mod egress_log;
mod explaining;
mod finishing;
mod following;
mod guest_scripts;
mod leases;
mod linking;
mod making;
mod observing;
mod outcome;
mod owner;
mod patch;
mod preparing;
mod question_timeout;
mod queueing;
mod reconciler;
mod restarting;
mod retention;
mod retention_clock;
mod screen_recording;
mod session;
mod start_failure;
mod start_tree;
mod starting;
mod task_gateways;
mod usage_series;

pub(crate) use adopting::{MAX_ADOPTIONS_AT_ONCE, remove_strays};
pub(crate) use deadlines::time_used;
pub(crate) use reconciler::{ClaimedJob, Reconciler};
