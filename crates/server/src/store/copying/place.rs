//! The places of a copy, as an operator names them.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::store::copy_side::CopySide;
use crate::store::postgres::{PostgresCopy, PostgresUrl};
use crate::store::sqlite::SqliteCopy;
use crate::store::{OpenStoreError, YardLock};

/// Where a store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyPlace {
    /// A data folder with a SQLite database.
    Folder(PathBuf),
    /// A PostgreSQL database.
    Postgres(PostgresUrl),
}

/// The text names no store. It is not repeated: it may hold a password.
#[derive(Debug, thiserror::Error)]
#[error("not a data folder, a file `yard.db`, or an address like postgres://user@host/database")]
pub struct BadCopyPlace;

/// Name of the database in a data folder.
const DATABASE: &str = "yard.db";
/// Name of the key in a data folder.
const KEY: &str = "store.key";

impl CopyPlace {
    /// Reads a folder, a database file, `sqlite:PATH`, or the address of a database.
    pub fn parse(text: &str) -> Result<Self, BadCopyPlace> {
        if PostgresUrl::is_meant_by(text) {
            return PostgresUrl::parse(text).map(Self::Postgres).map_err(|_| BadCopyPlace);
        }
        let path = Path::new(text.strip_prefix("sqlite:").unwrap_or(text));
        if text.is_empty() || text.contains("://") {
            return Err(BadCopyPlace);
        }
        let folder = match path.parent() {
            Some(parent) if path.file_name().is_some_and(|name| name == DATABASE) => parent,
            _ => path,
        };
        Ok(Self::Folder(folder.to_owned()))
    }

    /// Gives the address of a database a password, if it has none.
    #[must_use]
    pub fn or_password(self, password: Option<&str>) -> Self {
        match (self, password) {
            (Self::Postgres(url), Some(password)) => Self::Postgres(url.or_password(password)),
            (place, _) => place,
        }
    }

    pub(super) async fn open_source(&self) -> Result<Box<dyn CopySide>, OpenStoreError> {
        match self {
            Self::Folder(data) => {
                let path = data.join(DATABASE);
                if !path.exists() {
                    let source = std::io::ErrorKind::NotFound.into();
                    return Err(OpenStoreError::Prepare { path, source });
                }
                Ok(Box::new(SqliteCopy::open(data, YardLock::take(data)?)?))
            }
            Self::Postgres(url) => Ok(Box::new(PostgresCopy::open(url).await?)),
        }
    }

    /// Opens the target, and refuses it if it has another key than the one that the proof opens with.
    pub(super) async fn open_target(
        &self,
        proof: &[u8],
        from: &Self,
    ) -> Result<Box<dyn CopySide>, OpenStoreError> {
        match self {
            Self::Folder(data) => {
                let prepare = |path: PathBuf| |source| OpenStoreError::Prepare { path, source };
                crate::disk::make_data_folder(data).map_err(prepare(data.clone()))?;
                let lock = YardLock::take(data)?;
                let key = data.join(KEY);
                if let (Self::Folder(source), false) = (from, key.exists()) {
                    let bytes = std::fs::read(source.join(KEY)).map_err(prepare(source.join(KEY)))?;
                    crate::disk::write_durably(&key, &[&bytes]).map_err(prepare(key.clone()))?;
                }
                // Without it every request would be lost: a new key opens none of them.
                if !key.exists() {
                    return Err(OpenStoreError::OtherKey);
                }
                let copy = SqliteCopy::open(data, lock)?;
                if copy.opens(proof) { Ok(Box::new(copy)) } else { Err(OpenStoreError::OtherKey) }
            }
            Self::Postgres(url) => {
                let mut copy = PostgresCopy::open(url).await?;
                copy.take_key(proof).await?;
                Ok(Box::new(copy))
            }
        }
    }
}

impl fmt::Display for CopyPlace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(data) => write!(formatter, "`{}`", data.display()),
            Self::Postgres(url) => fmt::Display::fmt(url, formatter),
        }
    }
}
