//! A SQLite database as one side of a copy.

use std::path::Path;

use async_trait::async_trait;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, OpenFlags, OptionalExtension, params, params_from_iter};

use super::{columns, connect, make_private, read, sandboxes, schema};
use crate::job::{AuditRow, JobRow, SandboxRow};
use crate::store::copy_side::{CopiedTable, CopiedValue, CopySide, JOB_TABLES};
use crate::store::rules::JobLease;
use crate::store::sealing::{StoreSealer, file_place, request_place};
use crate::store::values::text;
use crate::store::{OpenStoreError, StoreError, YardLock};

/// The database of a data folder, which no server has.
pub(in crate::store) struct SqliteCopy {
    connection: Connection,
    sealer: StoreSealer,
    _lock: YardLock,
}

impl SqliteCopy {
    /// Opens or makes the database, and brings an older one up to date.
    pub(in crate::store) fn open(data: &Path, lock: YardLock) -> Result<Self, OpenStoreError> {
        let sealer = StoreSealer::load_or_create(&data.join("store.key"))?;
        let path = data.join("yard.db");
        make_private(&path).map_err(|source| OpenStoreError::Prepare { path: path.clone(), source })?;
        let mut connection = connect(&path, OpenFlags::default())?;
        schema::migrate(&mut connection)?;
        // Rows of a job come before its own row, which says that they are complete.
        connection.pragma_update(None, "foreign_keys", false)?;
        Ok(Self { connection, sealer, _lock: lock })
    }

    /// True if the folder has the key of that yard.
    pub(in crate::store) fn opens(&self, proof: &[u8]) -> bool {
        self.sealer.fingerprint() == proof
    }

    /// Requests of early releases are not sealed.
    fn sealed(&self, place: &str, stored: Value) -> Result<Vec<u8>, StoreError> {
        match stored {
            Value::Blob(sealed) => Ok(sealed),
            Value::Text(text) => self.sealer.seal(place, text.as_bytes()),
            _ => Err(StoreError::Damaged { what: "request" }),
        }
    }
}

/// The offset of a chunk has a name that PostgreSQL keeps for itself.
fn name(column: &'static str) -> &'static str {
    if column == "place" { "offset" } else { column }
}

/// Names of a table: only `chunks` has the column by another one.
fn namer(table: &CopiedTable) -> fn(&'static str) -> &'static str {
    if table.name == "chunks" { name } else { |column| column }
}

fn placeholder(number: usize) -> String {
    format!("?{number}")
}

fn bound(value: &CopiedValue) -> Value {
    match value {
        CopiedValue::Null => Value::Null,
        CopiedValue::Integer(number) => Value::Integer(*number),
        CopiedValue::Text(text) => Value::Text(text.clone()),
        CopiedValue::Bytes(bytes) => Value::Blob(bytes.clone()),
    }
}

fn copied(value: ValueRef<'_>) -> Result<CopiedValue, StoreError> {
    Ok(match value {
        ValueRef::Null => CopiedValue::Null,
        ValueRef::Integer(number) => CopiedValue::Integer(number),
        ValueRef::Text(text) => {
            let text = std::str::from_utf8(text).map_err(|_| StoreError::Damaged { what: "text" })?;
            CopiedValue::Text(text.to_owned())
        }
        ValueRef::Blob(bytes) => CopiedValue::Bytes(bytes.to_vec()),
        ValueRef::Real(_) => return Err(StoreError::Damaged { what: "number" }),
    })
}

#[async_trait]
impl CopySide for SqliteCopy {
    async fn key_proof(&mut self) -> Result<Vec<u8>, StoreError> {
        Ok(self.sealer.fingerprint().to_vec())
    }

    async fn jobs(&mut self, after: i64, limit: usize) -> Result<Vec<JobRow>, StoreError> {
        let values = vec![Value::Integer(after), Value::Integer(i64::try_from(limit).unwrap_or(i64::MAX))];
        read::jobs(&self.connection, "number > ?1 ORDER BY number LIMIT ?2", values)
    }

    async fn job(&mut self, number: i64) -> Result<Option<JobRow>, StoreError> {
        read::job_by_number(&self.connection, number)
    }

    async fn request(&mut self, job: i64) -> Result<Option<Vec<u8>>, StoreError> {
        let mut statement = self.connection.prepare_cached("SELECT request FROM requests WHERE job = ?1")?;
        let found: Option<Value> = statement.query_row([job], |row| row.get(0)).optional()?;
        found.map(|stored| self.sealed(&request_place(job), stored)).transpose()
    }

    async fn rows(
        &mut self,
        table: &CopiedTable,
        job: i64,
        after: Option<&[CopiedValue]>,
        limit: usize,
    ) -> Result<Vec<Vec<CopiedValue>>, StoreError> {
        let mut statement =
            self.connection.prepare_cached(&table.select(after.is_some(), namer(table), placeholder))?;
        let mut values: Vec<Value> = table.has_job.then_some(Value::Integer(job)).into_iter().collect();
        values.extend(after.into_iter().flatten().map(bound));
        values.push(Value::Integer(i64::try_from(limit).unwrap_or(i64::MAX)));
        let mut found = statement.query(params_from_iter(values))?;
        let mut rows = Vec::new();
        while let Some(row) = found.next()? {
            let values = (0..table.columns.len()).map(|place| copied(row.get_ref(place)?));
            rows.push(values.collect::<Result<_, _>>()?);
        }
        if table.name == "request_files" {
            return self.sealed_files(job, rows);
        }
        Ok(rows)
    }

    async fn sandboxes(&mut self) -> Result<Vec<SandboxRow>, StoreError> {
        sandboxes::all(&self.connection)
    }

    async fn yard_end(&mut self) -> Result<Option<AuditRow>, StoreError> {
        read::yard_audit(&self.connection)
    }

    async fn begin(&mut self) -> Result<(), StoreError> {
        Ok(self.connection.execute_batch("BEGIN IMMEDIATE")?)
    }

    async fn commit(&mut self) -> Result<(), StoreError> {
        Ok(self.connection.execute_batch("COMMIT")?)
    }

    async fn put_rows(&mut self, table: &CopiedTable, rows: &[Vec<CopiedValue>]) -> Result<(), StoreError> {
        let insert = table.insert(namer(table), placeholder);
        let mut statement = self.connection.prepare_cached(&insert)?;
        for row in rows {
            statement.execute(params_from_iter(row.iter().map(bound)))?;
        }
        if table.name == "request_files" {
            // Whatever is copied is sealed.
            let job = rows.first().and_then(|row| row.first()).map(bound);
            self.connection.execute("UPDATE request_files SET sealed = 1 WHERE job = ?1", [job])?;
        }
        Ok(())
    }

    async fn put_job(&mut self, row: &JobRow, request: Option<Vec<u8>>) -> Result<(), StoreError> {
        let number = columns::insert(&self.connection, row, &JobLease::free())?;
        self.connection
            .execute("UPDATE jobs SET number = ?2 WHERE number = ?1", params![number, row.number])?;
        if let Some(request) = request {
            let put = "INSERT INTO requests (job, request) VALUES (?1, ?2)";
            self.connection.execute(put, params![row.number, request])?;
        }
        Ok(())
    }

    async fn remove_job(&mut self, number: i64) -> Result<(), StoreError> {
        for table in &JOB_TABLES {
            self.connection.execute(&format!("DELETE FROM {} WHERE job = ?1", table.name), [number])?;
        }
        self.connection.execute("DELETE FROM requests WHERE job = ?1", [number])?;
        self.connection.execute("DELETE FROM jobs WHERE number = ?1", [number])?;
        Ok(())
    }

    async fn clear_yard(&mut self) -> Result<(), StoreError> {
        Ok(self
            .connection
            .execute_batch("DELETE FROM sandboxes; DELETE FROM yard_audit; DELETE FROM yard_audit_end")?)
    }

    async fn put_sandbox(&mut self, row: &SandboxRow) -> Result<(), StoreError> {
        sandboxes::put(&self.connection, row)
    }

    async fn put_yard_end(&mut self, end: &AuditRow) -> Result<(), StoreError> {
        let put = "INSERT INTO yard_audit_end (only, audit) VALUES (1, ?1)";
        self.connection.execute(put, [text(end, "yard audit")?])?;
        Ok(())
    }

    async fn finish(&mut self) -> Result<(), StoreError> {
        // Rows got numbers of their own before they got those of the source.
        let sequence = "UPDATE sqlite_sequence SET seq = (SELECT COALESCE(MAX(number), 0) FROM jobs) WHERE name = 'jobs'";
        self.connection.execute(sequence, [])?;
        Ok(())
    }
}

impl SqliteCopy {
    /// Files of requests of early releases are not sealed.
    fn sealed_files(
        &self,
        job: i64,
        mut rows: Vec<Vec<CopiedValue>>,
    ) -> Result<Vec<Vec<CopiedValue>>, StoreError> {
        let mut statement = self
            .connection
            .prepare_cached("SELECT sealed FROM request_files WHERE job = ?1 AND place = ?2")?;
        for row in &mut rows {
            let [_, CopiedValue::Integer(place), _, CopiedValue::Bytes(bytes)] = row.as_mut_slice() else {
                continue;
            };
            let is_sealed: bool = statement.query_row([job, *place], |row| row.get(0))?;
            if !is_sealed {
                let place = usize::try_from(*place).unwrap_or(usize::MAX);
                *bytes = self.sealer.seal(&file_place(job, place), bytes)?;
            }
        }
        Ok(rows)
    }
}
