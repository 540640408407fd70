//! A whole yard in one process, for tests: the real server and the real keeper on the fake driver, in temporary folders.
//!
//! [`ScriptedDriver`] has machines that are scripts, for tests of messages that no real guest sends. A [`PosingDriver`] is a
//! fake one that claims to be another, for tests of the choice between several. A [`TestYard`] can be crashed, which keeps its
//! data and its machines, and opened again. Waits are for a level, with a deadline; nothing here sleeps for a fixed time.

mod jobs;
mod posing;
mod scripted;
mod yard;

pub use jobs::{session, shell, task};
pub use posing::{Pose, PosingDriver};
pub use scripted::{Loop, OpenDesk, ScriptedDriver, question};
pub use yard::{Crashed, ReadyImages, TestError, TestYard, download_whole};
