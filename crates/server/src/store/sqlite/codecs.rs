//! How one field of a row is a column: `plain` as SQLite has it, `word` by its name, `json` as a document; `maybe_…` may be NULL.
//!
//! Every codec has a `read`, which takes the next column into a field, and a `write`, which returns a value to bind.

use rusqlite::Row;
use rusqlite::types::{FromSql, ValueRef};

use crate::store::StoreError;
use crate::store::values::{NamedValue, damaged, text};

/// The columns of a found row, taken one after the other.
pub(super) struct SqliteColumns<'a> {
    row: &'a Row<'a>,
    next: usize,
}

impl<'a> SqliteColumns<'a> {
    pub(super) fn new(row: &'a Row<'a>) -> Self {
        Self { row, next: 0 }
    }

    pub(super) fn take<T: FromSql>(&mut self) -> Result<T, StoreError> {
        let place = self.next;
        self.next += 1;
        Ok(self.row.get(place)?)
    }

    /// The text of the next column; `None` if it is NULL.
    fn take_text(&mut self, column: &'static str) -> Result<Option<&'a str>, StoreError> {
        let place = self.next;
        self.next += 1;
        match self.row.get_ref(place)? {
            ValueRef::Null => Ok(None),
            other => damaged(other.as_str().ok(), column).map(Some),
        }
    }
}

pub(super) mod plain {
    use rusqlite::types::{FromSql, ToSql};

    use super::{SqliteColumns, StoreError};

    pub(in super::super) fn read<T: FromSql>(
        columns: &mut SqliteColumns<'_>,
        _column: &'static str,
        field: &mut T,
    ) -> Result<(), StoreError> {
        *field = columns.take()?;
        Ok(())
    }

    pub(in super::super) fn write<T: ToSql>(field: &T) -> Result<&T, StoreError> {
        Ok(field)
    }
}

pub(super) mod word {
    use super::{NamedValue, SqliteColumns, StoreError, damaged};

    pub(in super::super) fn take<T: NamedValue>(
        columns: &mut SqliteColumns<'_>,
        column: &'static str,
    ) -> Result<T, StoreError> {
        damaged(columns.take_text(column)?.and_then(T::of_name), column)
    }

    pub(in super::super) fn read<T: NamedValue>(
        columns: &mut SqliteColumns<'_>,
        column: &'static str,
        field: &mut T,
    ) -> Result<(), StoreError> {
        *field = take(columns, column)?;
        Ok(())
    }

    pub(in super::super) fn write<T: NamedValue>(field: &T) -> Result<&str, StoreError> {
        Ok(field.name())
    }
}

pub(super) mod maybe_word {
    use super::{NamedValue, SqliteColumns, StoreError, damaged};

    pub(in super::super) fn take<T: NamedValue>(
        columns: &mut SqliteColumns<'_>,
        column: &'static str,
    ) -> Result<Option<T>, StoreError> {
        columns.take_text(column)?.map(|name| damaged(T::of_name(name), column)).transpose()
    }

    pub(in super::super) fn read<T: NamedValue>(
        columns: &mut SqliteColumns<'_>,
        column: &'static str,
        field: &mut Option<T>,
    ) -> Result<(), StoreError> {
        *field = take(columns, column)?;
        Ok(())
    }

    pub(in super::super) fn write<T: NamedValue>(field: &Option<T>) -> Result<Option<&str>, StoreError> {
        Ok(field.as_ref().map(T::name))
    }
}

pub(super) mod json {
    use super::{SqliteColumns, StoreError, damaged};

    pub(in super::super) fn take<T: serde::de::DeserializeOwned>(
        columns: &mut SqliteColumns<'_>,
        column: &'static str,
    ) -> Result<T, StoreError> {
        let text = columns.take_text(column)?;
        damaged(text.and_then(|text| serde_json::from_str(text).ok()), column)
    }
}

pub(super) mod maybe_json {
    use super::{SqliteColumns, StoreError, damaged, text};

    pub(in super::super) fn read<T: serde::de::DeserializeOwned>(
        columns: &mut SqliteColumns<'_>,
        column: &'static str,
        field: &mut Option<T>,
    ) -> Result<(), StoreError> {
        let text = columns.take_text(column)?;
        *field = text.map(|text| damaged(serde_json::from_str(text).ok(), column)).transpose()?;
        Ok(())
    }

    pub(in super::super) fn write<T: serde::Serialize>(
        field: &Option<T>,
    ) -> Result<Option<String>, StoreError> {
        field.as_ref().map(|value| text(value, "value to be stored")).transpose()
    }
}

/// The artifact is two columns, because totals are summed over one of them.
pub(super) mod artifact_sha256 {
    use super::{SqliteColumns, StoreError};
    use crate::job::ArtifactRow;

    pub(in super::super) fn read(
        columns: &mut SqliteColumns<'_>,
        _column: &'static str,
        field: &mut Option<ArtifactRow>,
    ) -> Result<(), StoreError> {
        let sha256: Option<String> = columns.take()?;
        *field = sha256.map(|sha256| ArtifactRow { sha256, bytes: 0 });
        Ok(())
    }

    pub(in super::super) fn write(field: &Option<ArtifactRow>) -> Result<Option<&str>, StoreError> {
        Ok(field.as_ref().map(|artifact| artifact.sha256.as_str()))
    }
}

/// Behind `artifact_sha256`, which makes the row.
pub(super) mod artifact_bytes {
    use super::{SqliteColumns, StoreError};
    use crate::job::ArtifactRow;

    pub(in super::super) fn read(
        columns: &mut SqliteColumns<'_>,
        _column: &'static str,
        field: &mut Option<ArtifactRow>,
    ) -> Result<(), StoreError> {
        let bytes: Option<u64> = columns.take()?;
        if let (Some(artifact), Some(bytes)) = (field, bytes) {
            artifact.bytes = bytes;
        }
        Ok(())
    }

    pub(in super::super) fn write(field: &Option<ArtifactRow>) -> Result<Option<u64>, StoreError> {
        Ok(field.as_ref().map(|artifact| artifact.bytes))
    }
}
