//! Links between a sandbox and the host: one duplex byte stream made into many, authenticated both ways.
//!
//! Knows no payload and no transport. The life of a link: either side skips to the `preamble`, the `hello`
//! proves both ends and fixes generation and epoch, then yamux carries `streams` opened from either side. `frames` cuts a
//! stream into bounded messages; `reconnect` says how long to wait before dialling again.

mod frames;
mod hello;
mod preamble;
mod reconnect;
mod streams;

pub use frames::{Frame, FrameError, FrameLimits, FrameReceiver, FrameSender, Framed};
pub use hello::{GENERATION, HelloError, HostOffer, OLDEST_GENERATION, Welcome, join, welcome};
pub use reconnect::Backoff;
pub use streams::{Duplex, Link, LinkClosed, PipeStream};
