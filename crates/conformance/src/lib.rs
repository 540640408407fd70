//! The conformance suite: rules for every driver, and attacks that no sandbox may allow. Only tests link this
//! crate.
//!
//! [`fake`] is a driver in memory that runs the guest's keeper in the test's own process.
//!
//! `lifecycle` holds a driver to its contract. `probe` runs a program inside that reports what it can see and
//! do, and judges the report by the attack ids of the threat list (docs/attacks.md). `resources` lets jobs
//! use all they can get; `shown_size` asks how large the machine looks; `neighbours` lets one sandbox look for another; `workspace` fills one with names and
//! links that try to mislead their reader; `own_kernel` is for virtual machines only. A driver's test makes a
//! [`DriverSubject`] and asserts that [`failures`] of each part's outcomes are none.

mod binding;
mod failing_start;
pub mod fake;
mod flushing;
mod images;
mod inodes;
mod lifecycle;
mod memory_kinds;
mod neighbours;
mod outcome;
mod own_kernel;
mod probe;
mod probe_program;
mod resources;
mod rules;
mod session;
mod shown_size;
mod subject;
mod workspace;

pub use binding::binding;
pub use failing_start::{FailingStep, failing_start};
pub use images::{TestImages, unread_image};
pub use lifecycle::lifecycle;
pub use neighbours::neighbours;
pub use outcome::{CheckOutcome, failures};
pub use own_kernel::own_kernel;
pub use probe::probe;
pub use probe_program::probe_program;
pub use resources::resources;
pub use session::{CommandResult, SandboxSession, SuiteError};
pub use shown_size::shown_size;
pub use subject::{DriverSubject, ReopenDriver};
pub use workspace::workspace;
