//! A job as commands handle it: finding it by id or name, showing it, and downloading its files.

mod archive;
mod output;
mod resolve;
mod show;
mod show_task;
mod transfer;
mod watch;

pub(crate) use archive::unpack;
pub(crate) use output::{JobOutput, TerminalText, output_bytes};
pub(crate) use resolve::{every_job, resolve, resolve_all};
pub(crate) use show::{OutputSink, age, duration, state_tone};
pub(crate) use transfer::{ResultDestination, download, save};
pub(crate) use watch::{OutputDisplay, Watch, Watched};
