//! Control groups: where the host keeps them, and the two groups of each sandbox.
//!
//! `layout` finds the hierarchies (version 1, version 2, or a hybrid: limits through 1, kill through a twin in 2); `groups`
//! makes, limits, kills and removes the groups of one sandbox, `disk_rates` limits their disks; `usage` reads their counters; `delegation` finds the part of
//! version 2 that an ordinary user may manage. In every hierarchy a sandbox has `sandyard-<yard>/<name>/own` for init and
//! keeper and `…/job` for the job's processes.

mod clearing;
mod delegation;
mod disk_rates;
mod groups;
mod layout;
mod usage;

pub(crate) use delegation::{DelegationError, find as find_delegated, of_yard, settle};
pub(crate) use groups::{GroupLimits, Groups, OWN_MEMORY_BYTES, OWN_PIDS};
pub(crate) use layout::CgroupLayout;
