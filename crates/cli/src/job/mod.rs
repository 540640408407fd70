//! A job as the commands handle it: finding it by what a person typed, showing it, and taking its files home.

mod archive;
mod resolve;
mod show;
mod show_task;
mod transfer;
mod watch;

pub(crate) use archive::unpack;
pub(crate) use resolve::{every_job, resolve, resolve_all};
pub(crate) use show::{OutputSink, age, duration, state_tone, write_output};
pub(crate) use transfer::{Destination, save, take_home};
pub(crate) use watch::{Output, Watch, Watched};
