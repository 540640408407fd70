//! The server's key, which signs the heads of chains. Ed25519 is deterministic: equal heads have equal signatures.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

use super::digest::{Sha256Digest, from_lower_hex};
use super::record::AuditHead;
use crate::key_file::{KEY_BYTES, KeyFileError, load_or_create_key};

/// The private key of a server's audits.
pub struct SigningKey {
    pair: Ed25519KeyPair,
    public: PublicKey,
}

/// Verifies signatures of a [`SigningKey`]. Its text form is 64 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

/// The text is not a public key.
#[derive(Debug, thiserror::Error)]
#[error("a public key has 64 hexadecimal digits")]
pub struct BadPublicKey;

impl SigningKey {
    /// Reads the key from a file that only its owner may read. If there is no file, makes a key and stores it durably.
    pub fn load_or_create(path: &Path) -> Result<Self, KeyFileError> {
        Self::from_seed(&load_or_create_key(path)?, path)
    }

    fn from_seed(seed: &[u8; KEY_BYTES], path: &Path) -> Result<Self, KeyFileError> {
        let unusable = || KeyFileError::Empty { path: path.to_owned() };
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).map_err(|_| unusable())?;
        let public = pair.public_key().as_ref().try_into().map(PublicKey).map_err(|_| unusable())?;
        Ok(Self { pair, public })
    }

    /// Returns the key that verifies its signatures.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// Signs the end of a chain. Returns the signature in hexadecimal.
    pub(crate) fn sign(&self, job: &str, records: u64, head: &Sha256Digest) -> String {
        let signature = self.pair.sign(AuditHead::statement(job, records, &head.to_string()).as_bytes());
        hex::encode(signature.as_ref())
    }
}

impl PublicKey {
    /// True if this key signed the head.
    pub fn accepts(&self, head: &AuditHead) -> bool {
        let statement = AuditHead::statement(&head.job, head.records, &head.head);
        let key = UnparsedPublicKey::new(&ED25519, self.0);
        from_lower_hex(&head.signature)
            .is_some_and(|signature| key.verify(statement.as_bytes(), &signature).is_ok())
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&hex::encode(self.0))
    }
}

impl FromStr for PublicKey {
    type Err = BadPublicKey;

    fn from_str(text: &str) -> Result<Self, BadPublicKey> {
        let bytes = from_lower_hex(text).ok_or(BadPublicKey)?;
        bytes.try_into().map(Self).map_err(|_| BadPublicKey)
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "SigningKey({})", self.public)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_is_made_once_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.key");
        let first = SigningKey::load_or_create(&path).unwrap();
        assert_eq!(first.public(), SigningKey::load_or_create(&path).unwrap().public());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(first.public().to_string().parse::<PublicKey>().unwrap(), first.public());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(matches!(SigningKey::load_or_create(&path), Err(KeyFileError::Exposed { mode: 0o640, .. })));
        let seed = std::fs::read(&path).unwrap();
        assert!(!format!("{first:?}").contains(&hex::encode(&seed)));
    }
}
