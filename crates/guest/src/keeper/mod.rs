//! The daemon that serves the host: the job, processes, files, kernels, the desktop, ports and events.
//!
//! Keeper dials the host, serves the link until it is lost and dials again, for ever. No state belongs to a link: processes,
//! output and events are in the spool (`spool`, `output`, `events`), so a lost link, a dead server or a killed keeper loses
//! nothing and repeats nothing.
//!
//! `assembly` constructs every service and hands it its collaborators; no service knows the whole. `daemon` runs them,
//! `link` serves one link, and `dispatch` finds the service for each request by a table. `core` holds the few things that
//! all services share. `tests/layers.rs` lists which module may import which.

mod activity;
pub mod agent;
mod assembly;
mod clock;
mod command_hints;
mod config;
mod core;
mod daemon;
pub mod desktop;
mod dial;
mod dispatch;
mod egress;
mod environment;
mod event_stream;
mod events;
mod exits;
pub mod files;
mod host_link;
mod job;
mod kernels;
mod link;
mod output;
mod ports;
mod processes;
mod request_keys;
pub mod role;
mod scripts;
mod spool;
mod stream;
mod tasks;
mod workers;
mod workspace_changes;

pub use config::KeeperConfig;
pub use core::KeeperError;
pub use daemon::run;
pub use dial::{Dial, SerialDial, UnixDial, VsockDial};
pub use spool::SpoolError;

#[cfg(test)]
mod keeper_tests;
