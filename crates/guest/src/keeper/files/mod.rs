//! Files of the workspace. The work is done by `worker`, a process with the job's own rights; keeper only relays.
//!
//! The path of one request: `pool` finds or starts a worker, `relay` carries frames both ways, and the worker's table of
//! operations serves it through `workspace`, which resolves every path beneath one directory descriptor.

mod change;
mod changes;
mod edit;
mod error;
mod export;
mod look;
mod names;
mod path;
mod pool;
mod relay;
mod remove;
mod replace;
mod replace_client;
mod search;
mod walk;
mod wire;
pub mod worker;
mod workspace;
mod write;

pub(super) use pool::FileWorkers;
pub(super) use relay::{claims, serve};
pub(super) use replace::{Identity, Replace, Replaced};
pub(super) use wire::WorkerWire;

#[cfg(test)]
mod files_tests;
