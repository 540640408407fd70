//! The orchestration server: `http/` → `app/` → `store/`, and `reconcile/` which makes the world match the rows.
//!
//! The row in the store is the truth. `app` is the façade: HTTP knows nothing below it. Killing the process at
//! any line loses nothing; `reconcile` rebuilds the rest from rows, drivers' markers and the guests' spools.

mod admission;
pub mod app;
mod artifacts;
pub mod audit;
pub mod auth;
pub mod config;
mod drivers;
pub mod fail_points;
mod gateways;
pub mod http;
pub mod job_id;
mod layout;
mod metrics;
mod output;
mod reconcile;
pub mod states;
mod store;
pub mod trust;
mod witness;
