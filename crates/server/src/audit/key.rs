//! The server's own key, which signs the heads of chains. Ed25519: the same head is always signed alike.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::str::FromStr;

use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

use super::record::{Digest, Head, bytes_of};
use crate::disk;
use crate::key_file::KeyFileError;

const SEED_BYTES: usize = 32;

/// Signs heads.
pub struct SigningKey {
    pair: Ed25519KeyPair,
    public: PublicKey,
}

/// Checks what a [`SigningKey`] signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

/// Text that is no public key.
#[derive(Debug, thiserror::Error)]
#[error("a public key has 64 hexadecimal digits")]
pub struct BadPublicKey;

impl SigningKey {
    /// The key in a file that only its owner can read; makes the file, durably, if there is none.
    pub fn load_or_create(path: &Path) -> Result<Self, KeyFileError> {
        let failed = |source| KeyFileError::Io { path: path.to_owned(), source };
        let mut seed = [0; SEED_BYTES];
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                getrandom::fill(&mut seed).map_err(|_| KeyFileError::Random)?;
                disk::write_durably(path, &[&seed]).map_err(failed)?;
                return Self::from_seed(&seed, path);
            }
            Err(error) => return Err(failed(error)),
        };
        let mode = file.metadata().map_err(failed)?.mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(KeyFileError::Exposed { path: path.to_owned(), mode });
        }
        file.read_exact(&mut seed).map_err(|_| KeyFileError::Empty { path: path.to_owned() })?;
        Self::from_seed(&seed, path)
    }

    fn from_seed(seed: &[u8; SEED_BYTES], path: &Path) -> Result<Self, KeyFileError> {
        let unusable = || KeyFileError::Empty { path: path.to_owned() };
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).map_err(|_| unusable())?;
        let public = pair.public_key().as_ref().try_into().map(PublicKey).map_err(|_| unusable())?;
        Ok(Self { pair, public })
    }

    /// What checks its signatures.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// Signs the end of a chain; in hexadecimal.
    pub(crate) fn sign(&self, job: &str, records: u64, head: &Digest) -> String {
        let signature = self.pair.sign(Head::statement(job, records, &head.to_string()).as_bytes());
        signature.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl PublicKey {
    /// Whether a head was signed by this key.
    pub fn accepts(&self, head: &Head) -> bool {
        let statement = Head::statement(&head.job, head.records, &head.head);
        let key = UnparsedPublicKey::new(&ED25519, self.0);
        bytes_of(&head.signature)
            .is_some_and(|signature| key.verify(statement.as_bytes(), &signature).is_ok())
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl FromStr for PublicKey {
    type Err = BadPublicKey;

    fn from_str(text: &str) -> Result<Self, BadPublicKey> {
        let bytes = bytes_of(text).ok_or(BadPublicKey)?;
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
        assert!(
            !format!("{first:?}")
                .contains(&seed.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
        );
    }
}
