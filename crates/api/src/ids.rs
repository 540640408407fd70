//! Job ids: 128 random bits as a lower-case DNS label, because an id is also part of a host name.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;

/// Letters of RFC 4648 base32 in lower case: no case to lose and nothing that needs quoting.
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// The id of a job: 26 characters of lower-case base32, from 128 random bits.
// Every request carries a few, so it holds its characters in place.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, ToSchema)]
#[schema(value_type = String, pattern = "^[a-z2-7]{26}$", example = "k5c7jq3l2m4n6o7p2q3r4s5t6u")]
pub struct JobId([u8; JobId::LENGTH]);

/// The text is not a job id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a job id has 26 characters, a to z and 2 to 7")]
pub struct InvalidJobId;

impl JobId {
    /// Number of characters in an id.
    pub const LENGTH: usize = 26;

    /// Returns the id of these random bytes.
    pub fn from_random(bytes: [u8; 16]) -> Self {
        let number = u128::from_be_bytes(bytes);
        Self(std::array::from_fn(|place| {
            // 26 letters hold 130 bits: the last one has only three of the number's, shifted up.
            let shift = 123_i32 - 5 * place as i32;
            let bits = if shift >= 0 { number >> shift } else { number << -shift };
            ALPHABET[(bits & 31) as usize]
        }))
    }

    /// Parses an id. Accepts exactly the texts that `from_random` creates.
    pub fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        // Only letters of the alphabet get in, which are ASCII.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// The beginning of a job id, up to all of it: what people copy from a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobIdPrefix(String);

impl JobIdPrefix {
    /// Letters of the shortest prefix. A shorter text is more likely a slip than a job.
    pub const SHORTEST: usize = 4;

    /// Parses a prefix of an id.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = (Self::SHORTEST..=JobId::LENGTH).contains(&text.len()) && text.bytes().all(is_letter);
        fits.then(|| Self(text.to_owned()))
    }

    /// Returns the id if the prefix is all of it.
    pub fn whole(&self) -> Option<JobId> {
        JobId::parse(&self.0)
    }

    /// Returns the prefix as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for JobIdPrefix {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// True for a letter of ids.
fn is_letter(letter: u8) -> bool {
    matches!(letter, b'a'..=b'z' | b'2'..=b'7')
}

impl FromStr for JobId {
    type Err = InvalidJobId;

    fn from_str(text: &str) -> Result<Self, InvalidJobId> {
        let letters: [u8; Self::LENGTH] = text.as_bytes().try_into().map_err(|_| InvalidJobId)?;
        let clean = letters.iter().copied().all(is_letter);
        if clean { Ok(Self(letters)) } else { Err(InvalidJobId) }
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl Serialize for JobId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for JobId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_bytes_make_an_id_that_parses_back() {
        for bytes in [[0; 16], [0xff; 16], *b"0123456789abcdef"] {
            let id = JobId::from_random(bytes);
            assert_eq!(id.as_str().parse(), Ok(id));
        }
    }

    #[test]
    fn every_bit_counts() {
        let mut seen = std::collections::BTreeSet::new();
        for bit in 0..128 {
            seen.insert(JobId::from_random((1_u128 << bit).to_be_bytes()));
        }
        assert_eq!(seen.len(), 128);
    }

    #[test]
    fn the_beginning_of_an_id_is_long_enough_to_be_meant() {
        let id = JobId::from_random(*b"0123456789abcdef");
        for length in [JobIdPrefix::SHORTEST, 8, JobId::LENGTH] {
            let prefix = JobIdPrefix::parse(&id.as_str()[..length]).unwrap();
            assert_eq!(prefix.whole(), (length == JobId::LENGTH).then(|| id.clone()));
        }
        for text in ["", "abc", "abc1", "abcD", "abc/", "abcü", &format!("{id}a")] {
            assert_eq!(JobIdPrefix::parse(text), None, "{text}");
        }
    }

    #[test]
    fn other_text_is_refused() {
        for text in [
            "",
            "abc",
            "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
            "abcdefghijklmnopqrstuvwx/.",
            "aaaaaaaaaaaaaaaaaaaaaaaaa1",
        ] {
            assert_eq!(text.parse::<JobId>(), Err(InvalidJobId), "{text}");
        }
    }
}
