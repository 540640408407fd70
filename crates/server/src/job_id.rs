//! The name of a job: 26 lower-case base32 characters that carry 128 random bits, a valid DNS label.

use std::fmt;

use serde::{Deserialize, Serialize};

const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
const LENGTH: usize = 26;

/// Names one job for ever; can't be guessed and may stand in a path or a host name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(String);

/// The operating system gave no randomness.
#[derive(Debug, thiserror::Error)]
#[error("no randomness from the operating system")]
pub struct RandomError(#[from] getrandom::Error);

impl JobId {
    /// A new random id.
    pub fn random() -> Result<Self, RandomError> {
        let mut bytes = [0u8; 16];
        getrandom::fill(&mut bytes)?;
        Ok(Self(encode(u128::from_be_bytes(bytes))))
    }

    /// Accepts exactly what `random` makes, so that anything else is simply unknown.
    pub fn parse(text: &str) -> Option<Self> {
        let clean = text.len() == LENGTH && text.bytes().all(|byte| ALPHABET.contains(&byte));
        clean.then(|| Self(text.to_owned()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// 26 characters of 5 bits: the first one carries only 3.
fn encode(number: u128) -> String {
    (0..LENGTH)
        .rev()
        .map(|place| char::from(ALPHABET[usize::try_from((number >> (5 * place)) & 31).unwrap_or(0)]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_ids_differ_and_parse() {
        let first = JobId::random().unwrap();
        let second = JobId::random().unwrap();
        assert_ne!(first, second);
        assert_eq!(JobId::parse(first.as_str()), Some(first));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in
            ["", "a", "../../../../../etc/passwd", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxy1"]
        {
            assert_eq!(JobId::parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_encoding_is_fixed() {
        assert_eq!(encode(0), "a".repeat(26));
        assert_eq!(encode(u128::MAX), format!("h{}", "7".repeat(25)));
    }
}
