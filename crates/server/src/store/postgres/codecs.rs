//! How one field of a row is a column: `plain` as PostgreSQL has it, `word` by its name, `json` as a document; `maybe_…` may be NULL.
//!
//! Numbers are `bigint`, documents are `text`: nobody asks the database about their members.

use tokio_postgres::Row;
use tokio_postgres::types::{FromSqlOwned, IsNull, ToSql, Type, private::BytesMut, to_sql_checked};

use crate::store::StoreError;
use crate::store::values::{NamedValue, damaged, text};

/// A value to bind.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum SqlValue {
    Null,
    Truth(bool),
    Integer(i64),
    Text(String),
    Bytes(Vec<u8>),
    Integers(Vec<i64>),
    Texts(Vec<String>),
    /// Bytes, of which some may be NULL.
    MaybeBytes(Vec<Option<Vec<u8>>>),
}

/// One statement with its values.
pub(super) type SqlStep = (String, Vec<SqlValue>);

impl SqlValue {
    /// A text. PostgreSQL has none with NUL characters, which a driver's words may contain.
    pub(super) fn text(text: &str) -> Self {
        if text.contains('\0') {
            Self::Text(text.replace('\0', "\u{fffd}"))
        } else {
            Self::Text(text.to_owned())
        }
    }

    pub(super) fn maybe_text(text: Option<&str>) -> Self {
        text.map_or(Self::Null, Self::text)
    }

    /// A number of events, bytes or records: none reaches the largest `bigint`.
    pub(super) fn count(count: u64) -> Self {
        Self::Integer(i64::try_from(count).unwrap_or(i64::MAX))
    }
}

impl ToSql for SqlValue {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Truth(value) => value.to_sql(kind, out),
            Self::Integer(value) => value.to_sql(kind, out),
            Self::Text(value) => value.to_sql(kind, out),
            Self::Bytes(value) => value.to_sql(kind, out),
            Self::Integers(values) => values.to_sql(kind, out),
            Self::Texts(values) => values.to_sql(kind, out),
            Self::MaybeBytes(values) => values.to_sql(kind, out),
        }
    }

    /// The statements of this store give every parameter its type.
    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// The columns of a found row, taken one after the other.
pub(super) struct PostgresColumns<'a> {
    row: &'a Row,
    next: usize,
}

impl<'a> PostgresColumns<'a> {
    pub(super) fn new(row: &'a Row) -> Self {
        Self { row, next: 0 }
    }

    pub(super) fn take<T: PlainValue>(&mut self, column: &'static str) -> Result<T, StoreError> {
        let place = self.next;
        self.next += 1;
        damaged(T::of_stored(self.row.try_get(place)?), column)
    }

    fn take_text(&mut self) -> Result<Option<&'a str>, StoreError> {
        let place = self.next;
        self.next += 1;
        Ok(self.row.try_get(place)?)
    }
}

/// A value that PostgreSQL has a type for.
pub(super) trait PlainValue: Sized {
    type Stored: FromSqlOwned;

    fn to_value(&self) -> SqlValue;
    fn of_stored(stored: Self::Stored) -> Option<Self>;
}

impl PlainValue for bool {
    type Stored = bool;

    fn to_value(&self) -> SqlValue {
        SqlValue::Truth(*self)
    }

    fn of_stored(stored: bool) -> Option<Self> {
        Some(stored)
    }
}

impl PlainValue for String {
    type Stored = String;

    fn to_value(&self) -> SqlValue {
        SqlValue::text(self)
    }

    fn of_stored(stored: String) -> Option<Self> {
        Some(stored)
    }
}

impl PlainValue for Vec<u8> {
    type Stored = Vec<u8>;

    fn to_value(&self) -> SqlValue {
        SqlValue::Bytes(self.clone())
    }

    fn of_stored(stored: Vec<u8>) -> Option<Self> {
        Some(stored)
    }
}

macro_rules! numbers {
    ($($type:ty),*) => { $(
        impl PlainValue for $type {
            type Stored = i64;

            fn to_value(&self) -> SqlValue {
                SqlValue::Integer(i64::try_from(*self).unwrap_or(i64::MAX))
            }

            fn of_stored(stored: i64) -> Option<Self> {
                Self::try_from(stored).ok()
            }
        }
    )* };
}
numbers!(i64, u64, i32, u32, usize);

impl<T: PlainValue> PlainValue for Option<T> {
    type Stored = Option<T::Stored>;

    fn to_value(&self) -> SqlValue {
        self.as_ref().map_or(SqlValue::Null, T::to_value)
    }

    fn of_stored(stored: Self::Stored) -> Option<Self> {
        stored.map_or(Some(None), |stored| T::of_stored(stored).map(Some))
    }
}

pub(super) mod plain {
    use super::{PlainValue, PostgresColumns, SqlValue, StoreError};

    pub(in super::super) fn read<T: PlainValue>(
        columns: &mut PostgresColumns<'_>,
        column: &'static str,
        field: &mut T,
    ) -> Result<(), StoreError> {
        *field = columns.take(column)?;
        Ok(())
    }

    #[expect(clippy::unnecessary_wraps, reason = "all codecs have the same form")]
    pub(in super::super) fn write<T: PlainValue>(field: &T) -> Result<SqlValue, StoreError> {
        Ok(field.to_value())
    }
}

pub(super) mod word {
    use super::{NamedValue, PostgresColumns, SqlValue, StoreError, damaged};

    pub(in super::super) fn take<T: NamedValue>(
        columns: &mut PostgresColumns<'_>,
        column: &'static str,
    ) -> Result<T, StoreError> {
        damaged(columns.take_text()?.and_then(T::of_name), column)
    }

    pub(in super::super) fn read<T: NamedValue>(
        columns: &mut PostgresColumns<'_>,
        column: &'static str,
        field: &mut T,
    ) -> Result<(), StoreError> {
        *field = take(columns, column)?;
        Ok(())
    }

    #[expect(clippy::unnecessary_wraps, reason = "all codecs have the same form")]
    pub(in super::super) fn write<T: NamedValue>(field: &T) -> Result<SqlValue, StoreError> {
        Ok(SqlValue::text(field.name()))
    }
}

pub(super) mod maybe_word {
    use super::{NamedValue, PostgresColumns, SqlValue, StoreError, damaged};

    pub(in super::super) fn take<T: NamedValue>(
        columns: &mut PostgresColumns<'_>,
        column: &'static str,
    ) -> Result<Option<T>, StoreError> {
        columns.take_text()?.map(|name| damaged(T::of_name(name), column)).transpose()
    }

    pub(in super::super) fn read<T: NamedValue>(
        columns: &mut PostgresColumns<'_>,
        column: &'static str,
        field: &mut Option<T>,
    ) -> Result<(), StoreError> {
        *field = take(columns, column)?;
        Ok(())
    }

    #[expect(clippy::unnecessary_wraps, reason = "all codecs have the same form")]
    pub(in super::super) fn write<T: NamedValue>(field: &Option<T>) -> Result<SqlValue, StoreError> {
        Ok(SqlValue::maybe_text(field.as_ref().map(T::name)))
    }
}

pub(super) mod json {
    use super::{PostgresColumns, StoreError, damaged};

    pub(in super::super) fn take<T: serde::de::DeserializeOwned>(
        columns: &mut PostgresColumns<'_>,
        column: &'static str,
    ) -> Result<T, StoreError> {
        let text = columns.take_text()?;
        damaged(text.and_then(|text| serde_json::from_str(text).ok()), column)
    }
}

pub(super) mod maybe_json {
    use super::{PostgresColumns, SqlValue, StoreError, damaged, text};

    pub(in super::super) fn read<T: serde::de::DeserializeOwned>(
        columns: &mut PostgresColumns<'_>,
        column: &'static str,
        field: &mut Option<T>,
    ) -> Result<(), StoreError> {
        let text = columns.take_text()?;
        *field = text.map(|text| damaged(serde_json::from_str(text).ok(), column)).transpose()?;
        Ok(())
    }

    pub(in super::super) fn write<T: serde::Serialize>(field: &Option<T>) -> Result<SqlValue, StoreError> {
        let Some(value) = field else { return Ok(SqlValue::Null) };
        Ok(SqlValue::Text(text(value, "value to be stored")?))
    }
}

/// The artifact is two columns, because totals are summed over one of them.
pub(super) mod artifact_sha256 {
    use super::{PostgresColumns, SqlValue, StoreError};
    use crate::job::ArtifactRow;

    pub(in super::super) fn read(
        columns: &mut PostgresColumns<'_>,
        column: &'static str,
        field: &mut Option<ArtifactRow>,
    ) -> Result<(), StoreError> {
        let sha256: Option<String> = columns.take(column)?;
        *field = sha256.map(|sha256| ArtifactRow { sha256, bytes: 0 });
        Ok(())
    }

    #[expect(clippy::unnecessary_wraps, reason = "all codecs have the same form")]
    pub(in super::super) fn write(field: &Option<ArtifactRow>) -> Result<SqlValue, StoreError> {
        Ok(SqlValue::maybe_text(field.as_ref().map(|artifact| artifact.sha256.as_str())))
    }
}

/// Behind `artifact_sha256`, which makes the row.
pub(super) mod artifact_bytes {
    use super::{PostgresColumns, SqlValue, StoreError};
    use crate::job::ArtifactRow;

    pub(in super::super) fn read(
        columns: &mut PostgresColumns<'_>,
        column: &'static str,
        field: &mut Option<ArtifactRow>,
    ) -> Result<(), StoreError> {
        let bytes: Option<u64> = columns.take(column)?;
        if let (Some(artifact), Some(bytes)) = (field, bytes) {
            artifact.bytes = bytes;
        }
        Ok(())
    }

    #[expect(clippy::unnecessary_wraps, reason = "all codecs have the same form")]
    pub(in super::super) fn write(field: &Option<ArtifactRow>) -> Result<SqlValue, StoreError> {
        Ok(field.as_ref().map_or(SqlValue::Null, |artifact| SqlValue::count(artifact.bytes)))
    }
}
