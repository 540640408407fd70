//! The orchestration server. Its modules are layers; each imports only from those above it in this list:
//!
//! - `clock`, `disk`, `fail_points`, `json_scan`, `key_file`, `memory`, `trust`: small tools without knowledge of jobs
//! - `audit`: records, the hash chain, its key and its verification
//! - `job`: nouns, states, rows and the pure function that applies a change
//! - `auth`: keys, callers, tickets' and origins' cookies
//! - `store`, `blobs`: where rows and bytes are kept
//! - `output`, `artifacts`, `recall`, `drivers`: logs, downloads, the memory of jobs, and which driver runs a job
//! - `gateways`: services that a sandbox reaches: the network, models, its journal
//! - `config`: everything an operator can set
//! - `yard`: shared parts of a running yard: live machines, admission, counters, the audit recorder
//! - `lifecycle`: makes the world match the rows
//! - `app`: the use cases
//! - `http`: the API, the proxy, MCP and the pages
//!
//! `tests/layers.rs` fails on an upward import. The row in the store is the truth: killing the process at any line
//! loses nothing, and `lifecycle` rebuilds the rest from rows, drivers' markers and the guests' spools.

pub mod app;
mod artifacts;
pub mod audit;
pub mod auth;
mod blobs;
mod clock;
pub mod config;
mod disk;
mod drivers;
pub mod fail_points;
mod gateways;
pub mod http;
pub mod job;
mod json_scan;
mod key_file;
mod lifecycle;
mod memory;
mod output;
mod recall;
mod store;
pub mod trust;
mod yard;
