//! A job as commands handle it: finding it by id or name, showing it, and downloading its files.

mod archive;
mod call_words;
mod output;
mod resolve;
mod show;
mod show_task;
mod spans;
mod stream_to_file;
mod transfer;
mod watch;

pub(crate) use crate::ui::short_id;
pub(crate) use archive::unpack;
pub(crate) use output::{JobOutput, TerminalText, output_bytes};
pub(crate) use resolve::{every_job, resolve, resolve_all};
pub(crate) use show::{OutputSink, state_tone};
pub(crate) use spans::{age, duration};
pub(crate) use transfer::{ResultDestination, copy_to_stdout, download, save};
pub(crate) use watch::{OnQuestion, OutputDisplay, Watch, WatchFrom, WatchNotes, Watched};
