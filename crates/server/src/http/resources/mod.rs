//! The handlers, one file for each noun of the API. `routes::table` says which request reaches which.

pub(super) mod archive;
pub(super) mod audit;
pub(super) mod code;
pub(super) mod context;
pub(super) mod desktop;
pub(super) mod download;
pub(super) mod events;
pub(super) mod explanation;
pub(super) mod files;
pub(super) mod files_change;
pub(super) mod gui;
pub(super) mod jobs;
pub(super) mod kernels;
pub(super) mod lab;
pub(super) mod logs;
mod process_socket;
mod process_view;
pub(super) mod processes;
pub(super) mod recall;
pub(super) mod recording;
pub(super) mod schedule;
pub(super) mod shell;
pub(super) mod stats;
pub(super) mod status;
pub(super) mod terminal;
pub(super) mod tickets;
pub(super) mod yard;
