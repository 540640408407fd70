//! Links between a sandbox and the host: one duplex byte stream made into many, authenticated both ways.
//!
//! Knows no payload and no transport. The life of a link: each side skips to the `preamble`; the `hello` authenticates both sides and
//! agrees on generation and epoch; then yamux carries `streams` opened from either side. `frames` cuts a stream into bounded
//! messages; `reconnect` computes the delay before the next attempt to connect.

mod frames;
mod hello;
mod preamble;
mod reconnect;
mod streams;

pub use frames::{Frame, FrameError, FrameLimits, FrameReceiver, FrameSender, Framed};
pub use hello::{GENERATION, HelloError, HostOffer, OLDEST_GENERATION, Welcome, join, welcome};
pub use reconnect::Backoff;
pub use streams::{Duplex, Link, LinkClosed, PipeStream};
