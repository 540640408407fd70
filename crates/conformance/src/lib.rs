//! The conformance suite: what every driver must do and what no sandbox may allow. Only tests link this crate.
//!
//! [`fake`] is a driver in memory that runs the guest's keeper in the test's own process.
//!
//! `lifecycle` holds a driver to its contract; `probe` runs a program inside that reports what it sees and does, and
//! judges the report by the attack ids of the threat list (docs/attacks.md); `resources` lets jobs eat what they can;
//! `neighbours` lets one sandbox look for another; `workspace` fills one with what should mislead whoever reads it; `own_kernel` is
//! for virtual machines alone. A driver's test makes a [`Subject`] and asserts that [`failures`] of each part's outcomes are none.

mod binding;
pub mod fake;
mod images;
mod lifecycle;
mod memory_kinds;
mod neighbours;
mod own_kernel;
mod probe;
mod resources;
mod rules;
mod session;
mod workspace;

use std::path::PathBuf;
use std::sync::Arc;

use sandyard_sandbox::driver::{Driver, Limits, LocalImages, SandboxId, SandboxSpec};

pub use binding::binding;
pub use images::{TestImages, unread_image};
pub use lifecycle::lifecycle;
pub use neighbours::neighbours;
pub use own_kernel::own_kernel;
pub use probe::{probe, probe_program};
pub use resources::resources;
pub use session::{Ran, Session, SessionError};
pub use workspace::workspace;

/// A sandbox that a failed test leaves ends by itself. A machine within an emulated machine takes minutes for a part of the suite.
const LIFETIME_S: u64 = 1_200;

/// Opens the driver again, as a restarted server would.
pub type Reopen = Box<dyn Fn() -> Arc<dyn Driver> + Send + Sync>;

/// A driver under test.
pub struct Subject {
    /// Opens it; each call stands for a new server on the same yard.
    pub open: Reopen,
    /// Its images; sandboxes get the first one.
    pub images: TestImages,
    /// A directory in which workspaces are made.
    pub workspaces: PathBuf,
    /// Whether its sandboxes' disks are in memory and charged to it.
    pub disk_in_memory: bool,
    /// Whether its sandboxes have a kernel of their own, to which its first users and namespaces belong.
    pub own_kernel: bool,
}

/// One judged check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Id and name, such as `K2.CapEff`.
    pub check: String,
    /// Whether it is as it must be.
    pub passed: bool,
    /// What was found.
    pub found: String,
}

impl Outcome {
    /// Judges a finding.
    pub fn new(check: impl Into<String>, passed: bool, found: impl Into<String>) -> Self {
        Self { check: check.into(), passed, found: found.into() }
    }
}

/// The checks that did not pass, one line each.
pub fn failures(outcomes: &[Outcome]) -> Vec<String> {
    let failed = outcomes.iter().filter(|outcome| !outcome.passed);
    failed.map(|outcome| format!("{}: {}", outcome.check, outcome.found)).collect()
}

impl Subject {
    /// A specification with its own workspace directory; `name` must be new.
    pub fn spec(&self, name: &str, limits: Limits) -> Result<SandboxSpec, SessionError> {
        let workspace = self.workspaces.join(name);
        std::fs::create_dir_all(&workspace).map_err(SessionError::Workspace)?;
        let id = SandboxId::parse(name).ok_or_else(|| SessionError::Name(name.to_owned()))?;
        Ok(SandboxSpec {
            id,
            image: self.images.probe_image().unwrap_or_else(unread_image),
            workspace,
            limits,
            lifetime_s: LIFETIME_S,
            secret: sandyard_protocol::Secret::new([7; 32]),
        })
    }
}
