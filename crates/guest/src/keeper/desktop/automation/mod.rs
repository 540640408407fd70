//! The part of the desktop that speaks X. It runs as the job's own user, because the job controls the server behind the display.
//!
//! `client` is one connection to the display and `actions` performs one action on it. `worker` serves keeper one action at a time;
//! `job` is the main process of a job of kind `gui`. Keeper trusts no worker: it bounds the answers and kills a worker that hangs.

mod actions;
mod client;
mod images;
pub mod job;
mod keyboard;
mod keys;
mod pointer;
mod scripts;
mod stability;
mod windows;
pub mod worker;
