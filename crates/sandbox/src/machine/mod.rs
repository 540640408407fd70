//! A live machine: typed calls of the guest protocol over one link.
//!
//! Everything that comes back is hostile: bounded by the frame limits, checked against the request, and given
//! a deadline. A call that fails with [`MachineError::Lost`] may have happened or not; the caller decides
//! whether to repeat it. One file for each group of calls; `calls` owns the way a call is made.

mod calls;
mod changes;
mod desktop;
mod doors;
mod events;
mod export;
mod files;
mod kernels;
mod ports;
mod processes;
mod recording;

pub use calls::{FRAME_LIMITS, Machine, MachineError};
pub use desktop::GuiAnswers;
pub use doors::MachineStream;
pub use events::{FromGuest, GuestEventStream, OpenedByGuest};
pub use export::{Export, ExportEntry};
pub use files::{FileContent, FileWriter};
pub use kernels::{ExecutionStream, FromExecution};
pub use ports::PortStream;
pub use processes::{FromProcess, ProcessControl, ProcessReader, ProcessStream};
pub use recording::{DesktopRecording, ScreenPicture};
