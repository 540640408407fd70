//! New names for jobs and sandboxes.

use sandyard_sandbox::driver::SandboxId;

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

/// A name for a sandbox that no other has. It says nothing about the job: a sandbox may be older than its job. Sandboxes of
/// servers before schema 6 are named `<job>-<incarnation>`.
pub(crate) fn random_sandbox_id() -> Result<SandboxId, RandomError> {
    let letters = random()?;
    // Letters of a job id are those of a DNS label.
    SandboxId::parse(&format!("s-{letters}")).ok_or(RandomError(getrandom::Error::UNEXPECTED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sandboxes_are_new_and_those_of_older_servers_stay_valid() {
        let first = random_sandbox_id().unwrap();
        assert_ne!(first, random_sandbox_id().unwrap());
        let old = format!("{}-12", random().unwrap());
        assert_eq!(SandboxId::parse(&old).unwrap().as_str(), old);
    }
}
