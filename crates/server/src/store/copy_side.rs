//! A store as a copy sees it: tables, read in pages and written in transactions.

use async_trait::async_trait;

use crate::job::{AuditRow, JobRow, SandboxRow};
use crate::store::StoreError;

/// A value of a row that is only copied.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::store) enum CopiedValue {
    Null,
    Integer(i64),
    Text(String),
    Bytes(Vec<u8>),
}

/// The kind of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum CopiedKind {
    Integer,
    Text,
    Bytes,
}

/// A table whose rows are the same in every store.
#[derive(Debug)]
pub(in crate::store) struct CopiedTable {
    pub(in crate::store) name: &'static str,
    /// Names and kinds. The first column is the number of the job, if there is one.
    pub(in crate::store) columns: &'static [(&'static str, CopiedKind)],
    /// Places of the columns by which rows are in order.
    pub(in crate::store) key: &'static [usize],
    pub(in crate::store) has_job: bool,
}

use CopiedKind::{Bytes, Integer, Text};

/// The rows of a job beside its own and its request.
pub(in crate::store) const JOB_TABLES: [CopiedTable; 7] = [
    CopiedTable {
        name: "events",
        columns: &[("job", Integer), ("id", Integer), ("kind", Text), ("at_ms", Integer), ("data", Text)],
        key: &[1],
        has_job: true,
    },
    CopiedTable {
        name: "chunks",
        columns: &[
            ("job", Integer),
            ("stream", Integer),
            ("number", Integer),
            ("place", Integer),
            ("length", Integer),
            ("bytes", Bytes),
        ],
        key: &[1, 2],
        has_job: true,
    },
    CopiedTable {
        name: "journal",
        columns: &[
            ("job", Integer),
            ("number", Integer),
            ("kind", Text),
            ("at_ms", Integer),
            ("incarnation", Integer),
            ("entry", Text),
        ],
        key: &[1],
        has_job: true,
    },
    CopiedTable {
        name: "texts",
        columns: &[
            ("job", Integer),
            ("number", Integer),
            ("entry", Integer),
            ("origin", Integer),
            ("path", Text),
            ("at_ms", Integer),
            ("digest", Bytes),
            ("bytes", Integer),
            ("packed", Bytes),
            ("in_blob", Integer),
        ],
        key: &[1],
        has_job: true,
    },
    CopiedTable {
        name: "audit",
        columns: &[("job", Integer), ("number", Integer), ("record", Text)],
        key: &[1],
        has_job: true,
    },
    CopiedTable {
        name: "request_files",
        columns: &[("job", Integer), ("place", Integer), ("path", Text), ("bytes", Bytes)],
        key: &[1],
        has_job: true,
    },
    CopiedTable {
        name: "idempotency_keys",
        columns: &[("job", Integer), ("key_sha256", Bytes), ("body_sha256", Bytes)],
        key: &[1],
        has_job: true,
    },
];

/// The records of the yard's audit.
pub(in crate::store) const YARD_AUDIT: CopiedTable = CopiedTable {
    name: "yard_audit",
    columns: &[("number", Integer), ("record", Text)],
    key: &[0],
    has_job: false,
};

impl CopiedTable {
    /// The key of a row.
    pub(in crate::store) fn key_of(&self, row: &[CopiedValue]) -> Vec<CopiedValue> {
        self.key.iter().filter_map(|place| row.get(*place)).cloned().collect()
    }

    /// The statement that reads a page: the job, then the key to begin behind, then the limit, as far as they are there. `name` gives a
    /// column's name in the store, `value` a placeholder by its number.
    pub(in crate::store) fn select(
        &self,
        has_after: bool,
        name: fn(&'static str) -> &'static str,
        value: fn(usize) -> String,
    ) -> String {
        let names = |places: &mut dyn Iterator<Item = &(&'static str, CopiedKind)>| {
            places.map(|(column, _)| name(column)).collect::<Vec<_>>().join(", ")
        };
        let all = names(&mut self.columns.iter());
        let key = names(&mut self.key.iter().filter_map(|place| self.columns.get(*place)));
        let mut next = 1;
        let mut placeholder = || {
            next += 1;
            value(next - 1)
        };
        let mut conditions = Vec::new();
        if self.has_job {
            conditions.push(format!("job = {}", placeholder()));
        }
        if has_after {
            let values: Vec<String> = self.key.iter().map(|_| placeholder()).collect();
            conditions.push(format!("({key}) > ({})", values.join(", ")));
        }
        let conditions = if conditions.is_empty() { "1 = 1".to_owned() } else { conditions.join(" AND ") };
        format!("SELECT {all} FROM {} WHERE {conditions} ORDER BY {key} LIMIT {}", self.name, placeholder())
    }

    /// The statement that writes a row.
    pub(in crate::store) fn insert(
        &self,
        name: fn(&'static str) -> &'static str,
        value: fn(usize) -> String,
    ) -> String {
        let names: Vec<_> = self.columns.iter().map(|(column, _)| name(column)).collect();
        let values: Vec<_> = (1..=self.columns.len()).map(value).collect();
        format!("INSERT INTO {} ({}) VALUES ({})", self.name, names.join(", "), values.join(", "))
    }
}

/// One of the two stores of a copy.
#[async_trait]
pub(in crate::store) trait CopySide: Send {
    /// A value that opens with the key of the yard alone.
    async fn key_proof(&mut self) -> Result<Vec<u8>, StoreError>;

    /// Jobs behind a number, in order.
    async fn jobs(&mut self, after: i64, limit: usize) -> Result<Vec<JobRow>, StoreError>;

    async fn job(&mut self, number: i64) -> Result<Option<JobRow>, StoreError>;

    /// The request of a job, sealed.
    async fn request(&mut self, job: i64) -> Result<Option<Vec<u8>>, StoreError>;

    /// Rows of a table behind a key, in order.
    async fn rows(
        &mut self,
        table: &CopiedTable,
        job: i64,
        after: Option<&[CopiedValue]>,
        limit: usize,
    ) -> Result<Vec<Vec<CopiedValue>>, StoreError>;

    async fn sandboxes(&mut self) -> Result<Vec<SandboxRow>, StoreError>;

    /// The end of the yard's audit.
    async fn yard_end(&mut self) -> Result<Option<AuditRow>, StoreError>;

    async fn begin(&mut self) -> Result<(), StoreError>;

    async fn commit(&mut self) -> Result<(), StoreError>;

    async fn put_rows(&mut self, table: &CopiedTable, rows: &[Vec<CopiedValue>]) -> Result<(), StoreError>;

    /// Writes the row of a job, without a lease, and its request.
    async fn put_job(&mut self, row: &JobRow, request: Option<Vec<u8>>) -> Result<(), StoreError>;

    /// Removes every row of a job, if there are any.
    async fn remove_job(&mut self, number: i64) -> Result<(), StoreError>;

    /// Removes the rows that belong to no job.
    async fn clear_yard(&mut self) -> Result<(), StoreError>;

    async fn put_sandbox(&mut self, row: &SandboxRow) -> Result<(), StoreError>;

    async fn put_yard_end(&mut self, end: &AuditRow) -> Result<(), StoreError>;

    /// Prepares the store for new jobs: their numbers are higher than those of the copied ones.
    async fn finish(&mut self) -> Result<(), StoreError>;
}
