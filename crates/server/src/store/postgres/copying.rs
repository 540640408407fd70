//! A PostgreSQL database as one side of a copy.

use async_trait::async_trait;
use tokio_postgres::Row;

use super::codecs::{PostgresColumns, SqlValue};
use super::connection::{Connected, Connector, answered};
use super::group::{YARD_AUDIT as YARD_END, read_yard_audit};
use super::url::PostgresUrl;
use super::{check_key, columns, flush, sandboxes, schema};
use crate::job::{AuditRow, JobRow, SandboxRow};
use crate::store::copy_side::{CopiedKind, CopiedTable, CopiedValue, CopySide};
use crate::store::rules::{JobLease, LeasedJob};
use crate::store::values::text;
use crate::store::{OpenStoreError, StoreError};

/// The database, which no server has.
pub(in crate::store) struct PostgresCopy {
    connected: Connected,
}

impl PostgresCopy {
    /// Connects on the present runtime, makes the tables if they are missing, and keeps servers away for as long as it lives.
    pub(in crate::store) async fn open(url: &PostgresUrl) -> Result<Self, OpenStoreError> {
        let connector = Connector::new(url, tokio::runtime::Handle::current())?;
        let mut connected = connector.connect().await?;
        let alone = answered(connected.query(schema::HOLD_ALONE, &[])).await?;
        if alone.first().map(|row| row.try_get(0)).transpose()? != Some(true) {
            return Err(OpenStoreError::Served);
        }
        schema::migrate(&mut connected.client).await?;
        Ok(Self { connected })
    }

    /// Gives the yard its key, or refuses another one than it has.
    pub(in crate::store) async fn take_key(&mut self, proof: &[u8]) -> Result<(), OpenStoreError> {
        check_key(&self.connected, proof).await
    }

    async fn query(&self, sql: &str, values: &[SqlValue]) -> Result<Vec<Row>, StoreError> {
        answered(self.connected.query(sql, values)).await
    }
}

fn same(column: &'static str) -> &'static str {
    column
}

fn placeholder(number: usize) -> String {
    format!("${number}")
}

fn bound(value: &CopiedValue) -> SqlValue {
    match value {
        CopiedValue::Null => SqlValue::Null,
        CopiedValue::Integer(number) => SqlValue::Integer(*number),
        CopiedValue::Text(text) => SqlValue::text(text),
        CopiedValue::Bytes(bytes) => SqlValue::Bytes(bytes.clone()),
    }
}

fn copied(columns: &mut PostgresColumns<'_>, kind: CopiedKind) -> Result<CopiedValue, StoreError> {
    Ok(match kind {
        CopiedKind::Integer => columns.take::<Option<i64>>("number")?.map(CopiedValue::Integer),
        CopiedKind::Text => columns.take::<Option<String>>("text")?.map(CopiedValue::Text),
        CopiedKind::Bytes => columns.take::<Option<Vec<u8>>>("bytes")?.map(CopiedValue::Bytes),
    }
    .unwrap_or(CopiedValue::Null))
}

#[async_trait]
impl CopySide for PostgresCopy {
    async fn key_proof(&mut self) -> Result<Vec<u8>, StoreError> {
        let found = self.query("SELECT key_fingerprint FROM yard", &[]).await?;
        Ok(found.first().map(|row| row.try_get(0)).transpose()?.unwrap_or_default())
    }

    async fn jobs(&mut self, after: i64, limit: usize) -> Result<Vec<JobRow>, StoreError> {
        let sql = format!("{}j.number > $1 ORDER BY j.number LIMIT $2", *columns::SELECT);
        let values = [SqlValue::Integer(after), SqlValue::count(limit as u64)];
        self.query(&sql, &values).await?.iter().map(columns::read).collect()
    }

    async fn job(&mut self, number: i64) -> Result<Option<JobRow>, StoreError> {
        let found = self.query(&columns::BY_NUMBER, &[SqlValue::Integer(number)]).await?;
        found.first().map(columns::read).transpose()
    }

    async fn request(&mut self, job: i64) -> Result<Option<Vec<u8>>, StoreError> {
        let found =
            self.query("SELECT request FROM requests WHERE job = $1", &[SqlValue::Integer(job)]).await?;
        Ok(found.first().map(|row| row.try_get(0)).transpose()?)
    }

    async fn rows(
        &mut self,
        table: &CopiedTable,
        job: i64,
        after: Option<&[CopiedValue]>,
        limit: usize,
    ) -> Result<Vec<Vec<CopiedValue>>, StoreError> {
        let mut values: Vec<SqlValue> = table.has_job.then_some(SqlValue::Integer(job)).into_iter().collect();
        values.extend(after.into_iter().flatten().map(bound));
        values.push(SqlValue::count(limit as u64));
        let found = self.query(&table.select(after.is_some(), same, placeholder), &values).await?;
        let row = |row: &Row| {
            let mut columns = PostgresColumns::new(row);
            table.columns.iter().map(|(_, kind)| copied(&mut columns, *kind)).collect()
        };
        found.iter().map(row).collect()
    }

    async fn sandboxes(&mut self) -> Result<Vec<SandboxRow>, StoreError> {
        self.query(&sandboxes::ALL, &[]).await?.iter().map(sandboxes::read).collect()
    }

    async fn yard_end(&mut self) -> Result<Option<AuditRow>, StoreError> {
        let found = self.query(YARD_END, &[]).await?;
        Ok(found.first().map(read_yard_audit).transpose()?.map(|(_, end)| end))
    }

    async fn begin(&mut self) -> Result<(), StoreError> {
        answered(self.connected.client.batch_execute("BEGIN")).await
    }

    async fn commit(&mut self) -> Result<(), StoreError> {
        answered(self.connected.client.batch_execute("COMMIT")).await
    }

    async fn put_rows(&mut self, table: &CopiedTable, rows: &[Vec<CopiedValue>]) -> Result<(), StoreError> {
        let statement = answered(self.connected.statement(&table.insert(same, placeholder))).await?;
        let rows: Vec<Vec<SqlValue>> = rows.iter().map(|row| row.iter().map(bound).collect()).collect();
        // Sent one after the other without waiting for answers.
        let puts = rows.iter().map(|row| answered(self.connected.run(&statement, row)));
        futures_util::future::try_join_all(puts).await.map(drop)
    }

    async fn put_job(&mut self, row: &JobRow, request: Option<Vec<u8>>) -> Result<(), StoreError> {
        let job = LeasedJob { row: row.clone(), lease: JobLease::free() };
        let has_request = request.is_some();
        let values = columns::insert_values(&job, "", request.unwrap_or_default())?;
        self.query(&columns::INSERT, &values).await?;
        if !has_request {
            self.query("DELETE FROM requests WHERE job = $1", &[SqlValue::Integer(row.number)]).await?;
        }
        Ok(())
    }

    async fn remove_job(&mut self, number: i64) -> Result<(), StoreError> {
        self.query(flush::REMOVE, &[SqlValue::Integers(vec![number])]).await.map(drop)
    }

    async fn clear_yard(&mut self) -> Result<(), StoreError> {
        let clear = "DELETE FROM sandboxes; DELETE FROM yard_audit; DELETE FROM yard_audit_end";
        answered(self.connected.client.batch_execute(clear)).await
    }

    async fn put_sandbox(&mut self, row: &SandboxRow) -> Result<(), StoreError> {
        self.query(sandboxes::PUT, &sandboxes::values(row, "")?).await.map(drop)
    }

    async fn put_yard_end(&mut self, end: &AuditRow) -> Result<(), StoreError> {
        let values = [SqlValue::Integer(1), SqlValue::Text(text(end, "yard audit")?)];
        self.query(flush::PUT_YARD_END, &values).await.map(drop)
    }

    async fn finish(&mut self) -> Result<(), StoreError> {
        let sequence = "SELECT setval('job_numbers', (SELECT COALESCE(MAX(number), 0) + 1 FROM jobs), false)";
        self.query(sequence, &[]).await.map(drop)
    }
}
