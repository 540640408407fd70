//! Seals what clients entrust to a job while it is stored: its code, environment and files, and the secrets of sandboxes.
//!
//! The key is in a file beside the database, so a copy of the database alone, a backup or a crash dump of it for example, tells no
//! secret. Whoever can read the whole data folder can read everything: that is for the encryption of the disk to prevent.

use std::path::Path;

use hmac::{Hmac, KeyInit, Mac};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use sha2::Sha256;

use super::StoreError;
use crate::job::RandomError;
use crate::key_file::{KeyFileError, load_or_create_key};

/// First byte of everything that is sealed, for a later form.
const FORM: u8 = 1;

/// Seals and opens values of one store.
pub(super) struct StoreSealer {
    key: LessSafeKey,
    fingerprint: [u8; 32],
}

/// Keeps the fingerprint of a key apart from every other use of the key.
const FINGERPRINT: &[u8] = b"fingerprint of the key of a yard";

impl StoreSealer {
    /// Reads the key from a file, or makes one.
    pub(super) fn load_or_create(path: &Path) -> Result<Self, KeyFileError> {
        let bytes = load_or_create_key(path)?;
        let unusable = || KeyFileError::Empty { path: path.to_owned() };
        let key =
            UnboundKey::new(&CHACHA20_POLY1305, &bytes).map(LessSafeKey::new).map_err(|_| unusable())?;
        let mut fingerprint = Hmac::<Sha256>::new_from_slice(&bytes).map_err(|_| unusable())?;
        fingerprint.update(FINGERPRINT);
        Ok(Self { key, fingerprint: fingerprint.finalize().into_bytes().into() })
    }

    /// Tells two keys apart and tells nothing else of them: a key is 256 random bits.
    pub(super) fn fingerprint(&self) -> &[u8; 32] {
        &self.fingerprint
    }

    /// Seals a value for one place. It can't be opened in the place of another.
    pub(super) fn seal(&self, place: &str, bytes: &[u8]) -> Result<Vec<u8>, StoreError> {
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).map_err(RandomError::from)?;
        let mut sealed = Vec::with_capacity(1 + NONCE_LEN + bytes.len() + CHACHA20_POLY1305.tag_len());
        sealed.push(FORM);
        sealed.extend_from_slice(&nonce);
        let mut content = bytes.to_vec();
        // A random nonce of 96 bits: two of a billion values meet with a chance of one in 10^11.
        let nonce = Nonce::assume_unique_for_key(nonce);
        self.key
            .seal_in_place_append_tag(nonce, Aad::from(place.as_bytes()), &mut content)
            .map_err(|_| StoreError::Damaged { what: "key of the store" })?;
        sealed.extend_from_slice(&content);
        Ok(sealed)
    }

    /// Opens a value of this place; `None` if it was sealed by another key, for another place, or altered.
    pub(super) fn open(&self, place: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        let (&form, rest) = sealed.split_first()?;
        let (nonce, content) = rest.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok().filter(|_| form == FORM)?;
        let mut content = content.to_vec();
        let length = self.key.open_in_place(nonce, Aad::from(place.as_bytes()), &mut content).ok()?.len();
        content.truncate(length);
        Some(content)
    }
}

/// The place that a request is sealed for.
pub(super) fn request_place(job: i64) -> String {
    format!("request {job}")
}

/// The place that a file of a request is sealed for.
pub(super) fn file_place(job: i64, place: usize) -> String {
    format!("file {job} {place}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_value_opens_in_its_place_with_its_key_alone() {
        let folder = tempfile::tempdir().unwrap();
        let sealer = |name: &str| StoreSealer::load_or_create(&folder.path().join(name)).unwrap();
        let sealed = sealer("a").seal("request 1", b"TOKEN=hunter2").unwrap();
        assert!(!sealed.windows(7).any(|part| part == b"hunter2"));
        assert_eq!(sealer("a").open("request 1", &sealed).unwrap(), b"TOKEN=hunter2");
        assert_eq!(sealer("a").open("request 2", &sealed), None);
        assert_eq!(sealer("b").open("request 1", &sealed), None);
        assert_eq!(sealer("a").fingerprint(), sealer("a").fingerprint());
        assert_ne!(sealer("a").fingerprint(), sealer("b").fingerprint());
        for at in 0..sealed.len() {
            let mut altered = sealed.clone();
            altered[at] ^= 1;
            assert_eq!(sealer("a").open("request 1", &altered), None, "byte {at}");
        }
        assert_eq!(sealer("a").open("request 1", b""), None);
    }
}
