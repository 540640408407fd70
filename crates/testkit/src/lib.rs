//! A whole yard in one process, for tests: the real server and the real keeper on the fake driver, in folders that go away.
//!
//! A [`TestYard`] can be crashed, which keeps its data and its machines, and opened again. Waits are for a level, with a
//! deadline; nothing here sleeps for a fixed time.

mod jobs;
mod yard;

pub use jobs::{session, shell};
pub use yard::{Crashed, TestError, TestYard};
