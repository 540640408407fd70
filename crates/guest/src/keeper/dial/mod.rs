//! How keeper reaches the host: a fresh byte stream for each dial.

mod contract;
mod descriptor_stream;
mod unix;
mod virtual_machine;

pub use contract::Dial;
pub use unix::UnixDial;
pub use virtual_machine::{SerialDial, VsockDial};
