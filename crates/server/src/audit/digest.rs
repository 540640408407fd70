//! SHA-256 digests and their hexadecimal form.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

/// A SHA-256 digest. Its text form is 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sha256Digest([u8; 32]);

impl Sha256Digest {
    /// Returns the digest of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Returns the `previous` hash of a job's first record. It depends on the job, so that no record fits into the
    /// chain of another job.
    pub fn root(job: &str) -> Self {
        Self::of(format!("sandyard audit 1\n{job}\n").as_bytes())
    }
}

impl fmt::Display for Sha256Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&hex::encode(self.0))
    }
}

impl FromStr for Sha256Digest {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let bytes = from_lower_hex(text).ok_or(())?;
        bytes.try_into().map(Self).map_err(|_| ())
    }
}

/// Returns the SHA-256 of some bytes in the form that facts carry.
pub(crate) fn digest(bytes: &[u8]) -> String {
    Sha256Digest::of(bytes).to_string()
}

/// Decodes lower-case hexadecimal digits. Upper-case digits are rejected: a digest has one spelling only.
pub(super) fn from_lower_hex(text: &str) -> Option<Vec<u8>> {
    let lower = !text.bytes().any(|digit| digit.is_ascii_uppercase());
    lower.then(|| hex::decode(text).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_read_back() {
        let digest = Sha256Digest::of(b"x");
        assert_eq!(digest.to_string().parse(), Ok(digest));
        for wrong in ["", "0", "zz", &"A".repeat(64), &"0".repeat(66)] {
            assert!(wrong.parse::<Sha256Digest>().is_err(), "{wrong}");
        }
    }
}
