//! The daemon that serves the host: processes, files, export, the event spool.

pub mod files;
pub mod limits;
