//! New names for jobs.

pub use sandyard_api::JobId;

/// The operating system gave no randomness.
#[derive(Debug, thiserror::Error)]
#[error("no randomness from the operating system")]
pub struct RandomError(#[from] getrandom::Error);

/// An id that nobody has and nobody can guess.
pub fn random() -> Result<JobId, RandomError> {
    let mut bytes = [0u8; 16];
    getrandom::fill(&mut bytes)?;
    Ok(JobId::from_random(bytes))
}
