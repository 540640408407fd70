//! The kernel calls that have no safe wrapper: descriptors by number, forks, exec, signals, attributes of mounts.
//!
//! These calls are for single-threaded processes (init, spawner) or for a child between fork and exec.

mod descriptors;
#[cfg(any(test, feature = "local-processes"))]
mod local;
mod machine;
mod mounts;
mod processes;
mod signals;
mod vsock;

pub(crate) use descriptors::{close_on_exec_from, keep_only, take, watch};
#[cfg(any(test, feature = "local-processes"))]
pub(crate) use local::prepare_session;
pub(crate) use machine::{MachineSignals, own_surroundings};
pub(crate) use mounts::{forbid_devices, forbid_set_user_id};
pub(crate) use processes::{
    Forked, Namespaces, exec, exec_program, fork, fork_into, kill_all, leave, own_boot_time,
    own_control_groups, own_users_and_mounts,
};
pub(crate) use signals::{ChildSignals, default_signals};

pub(crate) use processes::drop_bounding_capability;
pub(crate) use vsock::{accept_host, connect_vsock, listen_vsock};
