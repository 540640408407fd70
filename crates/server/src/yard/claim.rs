//! What claiming a queued job changes in its row.

use sandyard_protocol::Secret;
use sandyard_sandbox::driver::Driver;

use crate::job::{Change, JobState, Purpose};

/// A fresh secret for a sandbox. Without randomness it is one that no guest will be given, so no link is made.
pub(crate) fn new_secret() -> Secret {
    let mut bytes = [0; 32];
    if let Err(error) = getrandom::fill(&mut bytes) {
        tracing::error!(%error, "no randomness from the operating system");
    }
    Secret::new(bytes)
}

/// What a claim of a queued job commits, all at once.
pub(crate) fn claim_changes(driver: &dyn Driver, reason: Option<String>) -> Vec<Change> {
    vec![
        Change::Isolation { driver: driver.name().to_owned(), isolation: driver.isolation(), reason },
        Change::Incarnation { secret: new_secret(), purpose: Purpose::Run },
        Change::Move { to: JobState::Starting, reason: None },
    ]
}
