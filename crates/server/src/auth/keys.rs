//! Bearer keys: random, kept in one file that only its owner can read, compared in constant time.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq};

use crate::key_file::KeyFileError;

/// Longest key file that is read.
const MAX_FILE_BYTES: u64 = 64 * 1024;

/// The keys that open the API. Holds digests, so that neither a log nor a core dump shows a key.
#[derive(Clone, Default)]
pub struct KeyStore {
    digests: Vec<[u8; 32]>,
}

/// A new key, to be shown once.
pub struct CreatedKey(String);

impl KeyStore {
    /// A store of these keys.
    pub fn from_keys(keys: impl IntoIterator<Item = String>) -> Self {
        Self { digests: keys.into_iter().map(|key| Sha256::digest(key.as_bytes()).into()).collect() }
    }

    /// The keys in a file, one on each line; `None` if there is no such file.
    pub fn load(path: &Path) -> Result<Option<Self>, KeyFileError> {
        let failed = |source| KeyFileError::Io { path: path.to_owned(), source };
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        // Of the open file, not of the path: the file can't be exchanged between the check and the read.
        let mode = file.metadata().map_err(failed)?.mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(KeyFileError::Exposed { path: path.to_owned(), mode });
        }
        let mut text = String::new();
        file.take(MAX_FILE_BYTES).read_to_string(&mut text).map_err(failed)?;
        let keys = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let store = Self::from_keys(keys.map(str::to_owned));
        if store.is_empty() { Err(KeyFileError::Empty { path: path.to_owned() }) } else { Ok(Some(store)) }
    }

    /// The keys in a file; makes the file with one new key if there is none.
    pub fn load_or_create(path: &Path) -> Result<(Self, Option<CreatedKey>), KeyFileError> {
        if let Some(store) = Self::load(path)? {
            return Ok((store, None));
        }
        let key = CreatedKey::random()?;
        let failed = |source| KeyFileError::Io { path: path.to_owned(), source };
        let mut file =
            // The mode is set at creation: a later chmod would leave a moment in which others can read. `create_new` follows no
            // link.
            OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
        writeln!(file, "{}", key.expose()).and_then(|()| file.sync_all()).map_err(failed)?;
        Ok((Self::from_keys([key.expose().to_owned()]), Some(key)))
    }

    /// True if there is no key.
    pub fn is_empty(&self) -> bool {
        self.digests.is_empty()
    }

    /// The digests of all keys; other secrets are bound to them.
    pub(super) fn digests(&self) -> &[[u8; 32]] {
        &self.digests
    }

    /// The id of one of our keys: the beginning of its hash, which does not reveal the key. `None` for any other key.
    pub(super) fn id(&self, key: &str) -> Option<String> {
        let digest: [u8; 32] = Sha256::digest(key.as_bytes()).into();
        self.holds(key).then(|| id_of(&digest))
    }

    /// The ids of all keys.
    pub(super) fn ids(&self) -> Vec<String> {
        self.digests.iter().map(id_of).collect()
    }

    /// True if a key is one of ours. Takes the same time for every wrong key.
    pub fn holds(&self, key: &str) -> bool {
        let digest: [u8; 32] = Sha256::digest(key.as_bytes()).into();
        // All digests are compared, without an early end: the time must not tell how far a guess is right.
        let found = self.digests.iter().fold(Choice::from(0), |found, known| found | known.ct_eq(&digest));
        bool::from(found) && !key.is_empty()
    }
}

fn id_of(digest: &[u8; 32]) -> String {
    hex::encode(&digest[..6])
}

/// The file of a yard's keys, for its operator.
#[derive(Debug, Clone, Copy)]
pub struct KeyFile<'a> {
    path: &'a Path,
}

impl<'a> KeyFile<'a> {
    /// The file at this path, which need not exist.
    pub fn new(path: &'a Path) -> Self {
        Self { path }
    }

    /// Returns the ids of all keys, in order.
    pub fn ids(&self) -> Result<Vec<String>, KeyFileError> {
        Ok(self.keys()?.iter().map(|key| key_id(key)).collect())
    }

    /// Adds a new key.
    pub fn add(&self) -> Result<CreatedKey, KeyFileError> {
        let key = CreatedKey::random()?;
        let mut keys = self.keys()?;
        keys.push(key.expose().to_owned());
        self.write(&keys)?;
        Ok(key)
    }

    /// Removes the key with this id. False if there is none.
    pub fn remove(&self, id: &str) -> Result<bool, KeyFileError> {
        let keys = self.keys()?;
        let left: Vec<_> = keys.iter().filter(|key| key_id(key) != id).cloned().collect();
        if left.len() == keys.len() {
            return Ok(false);
        }
        self.write(&left)?;
        Ok(true)
    }

    /// The keys themselves. A file that others can read is refused, as the server refuses it.
    fn keys(&self) -> Result<Vec<String>, KeyFileError> {
        match KeyStore::load(self.path) {
            Ok(None) | Err(KeyFileError::Empty { .. }) => return Ok(Vec::new()),
            Err(error) => return Err(error),
            Ok(Some(_)) => {}
        }
        let text = std::fs::read_to_string(self.path).map_err(|source| self.failed(source))?;
        let keys = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        Ok(keys.map(str::to_owned).collect())
    }

    /// Replaces the file whole, so that a crash leaves the old keys or the new ones. The owner stays: a server that gave up root
    /// must read it.
    fn write(&self, keys: &[String]) -> Result<(), KeyFileError> {
        let new = self.path.with_extension("key.new");
        let owner = std::fs::metadata(self.path).or_else(|_| {
            let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
            std::fs::metadata(folder.unwrap_or(Path::new(".")))
        });
        let written = || {
            // One that a crash left behind.
            match std::fs::remove_file(&new) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
            keys.iter().try_for_each(|key| writeln!(file, "{key}"))?;
            file.sync_all()?;
            if let Ok(owner) = &owner {
                std::os::unix::fs::fchown(&file, Some(owner.uid()), Some(owner.gid()))?;
            }
            std::fs::rename(&new, self.path)
        };
        written().map_err(|source| self.failed(source))
    }

    fn failed(&self, source: std::io::Error) -> KeyFileError {
        KeyFileError::Io { path: self.path.to_owned(), source }
    }
}

fn key_id(key: &str) -> String {
    id_of(&Sha256::digest(key.as_bytes()).into())
}

impl CreatedKey {
    fn random() -> Result<Self, KeyFileError> {
        let mut bytes = [0_u8; 32];
        getrandom::fill(&mut bytes).map_err(|_| KeyFileError::Random)?;
        Ok(Self(format!("sy_{}", hex::encode(bytes))))
    }

    /// Returns the key as text, to be shown once. Never log it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for KeyStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "KeyStore({} keys)", self.digests.len())
    }
}

impl fmt::Debug for CreatedKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("CreatedKey(redacted)")
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_opens_afterwards() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("api.key");
        let (store, created) = KeyStore::load_or_create(&path).unwrap();
        let key = created.unwrap();
        assert!(store.holds(key.expose()) && !store.holds("") && !store.holds("sy_00"));
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let (again, created) = KeyStore::load_or_create(&path).unwrap();
        assert!(created.is_none() && again.holds(key.expose()));
        assert!(!format!("{key:?} {store:?}").contains(key.expose()));
    }

    #[test]
    fn keys_are_added_listed_and_removed_by_their_ids() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("api.key");
        let file = KeyFile::new(&path);
        assert_eq!(file.ids().unwrap(), [] as [String; 0]);
        let (one, two) = (file.add().unwrap(), file.add().unwrap());
        let store = KeyStore::load(&path).unwrap().unwrap();
        assert!(store.holds(one.expose()) && store.holds(two.expose()));
        assert_eq!(file.ids().unwrap(), store.ids());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(file.remove(&key_id(one.expose())).unwrap() && !file.remove("000000000000").unwrap());
        let store = KeyStore::load(&path).unwrap().unwrap();
        assert!(!store.holds(one.expose()) && store.holds(two.expose()));
    }

    #[test]
    fn a_file_others_can_read_or_without_a_key_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("api.key");
        std::fs::write(&path, "sy_x\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(KeyStore::load(&path), Err(KeyFileError::Exposed { mode: 0o644, .. })));
        std::fs::write(&path, "# none\n").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert!(matches!(KeyStore::load(&path), Err(KeyFileError::Empty { .. })));
    }
}
