//! Connections to the database: made on the store's own runtime, used from any.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::TryStreamExt;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, Connection, Row, Socket, Statement};

use super::codecs::SqlValue;
use super::errors;
use super::schema::SCHEMA;
use super::tls::{DatabaseTls, EncryptedStream};
use super::url::PostgresUrl;
use crate::store::{OpenStoreError, StoreError};

/// Settings of every connection. A statement that takes longer would hold locks that others wait for, and a server that stands still
/// in a transaction must not hold them for ever. `off` would lose answered writes when the database's host crashes.
const SETTINGS: &str = "SET statement_timeout = '20s'; SET lock_timeout = '5s'; \
    SET idle_in_transaction_session_timeout = '30s'; SET client_min_messages = 'warning'; \
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'";

/// Longest wait for one statement, above the database's own limit: for a network that swallows everything.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(25);

/// Notifications that wait to be read. While there are more, the connection reads no further.
const MAX_WAITING_NOTES: usize = 256;

/// Makes connections.
pub(super) struct Connector {
    url: PostgresUrl,
    tls: DatabaseTls,
    runtime: Handle,
}

impl Connector {
    /// Connections live on this runtime.
    pub(super) fn new(url: &PostgresUrl, runtime: Handle) -> Result<Self, OpenStoreError> {
        let file = url.root_certificates();
        // A connection that is never encrypted needs no certificates.
        let tls = if url.is_plain() { DatabaseTls::trusting(None) } else { DatabaseTls::trusting(file) };
        let path = || file.map(ToOwned::to_owned).unwrap_or_default();
        let tls = tls.map_err(|source| OpenStoreError::Prepare { path: path(), source })?;
        Ok(Self { url: url.clone(), tls, runtime })
    }

    /// Connects.
    pub(super) async fn connect(&self) -> Result<Connected, StoreError> {
        let (client, connection) = self.open().await?;
        self.runtime.spawn(async move {
            // Its error reaches everyone who waits for an answer.
            let _ = connection.await;
        });
        prepare(client).await
    }

    /// Connects and returns the notifications of the connection. Their end is that of the connection.
    pub(super) async fn connect_listening(&self) -> Result<(Connected, mpsc::Receiver<String>), StoreError> {
        let (client, mut connection) = self.open().await?;
        let (sender, notes) = mpsc::channel(MAX_WAITING_NOTES);
        self.runtime.spawn(async move {
            while let Some(Ok(message)) =
                std::future::poll_fn(|context| connection.poll_message(context)).await
            {
                if let AsyncMessage::Notification(note) = message
                    && sender.send(note.payload().to_owned()).await.is_err()
                {
                    return;
                }
            }
        });
        Ok((prepare(client).await?, notes))
    }

    async fn open(&self) -> Result<(Client, Connection<Socket, EncryptedStream<Socket>>), StoreError> {
        let (config, tls) = (self.url.config().clone(), self.tls.clone());
        let connecting = self.runtime.spawn(async move { config.connect(tls).await });
        let connected = connecting.await.map_err(|_| StoreError::Closed("stopped".into()))?;
        Ok(connected?)
    }
}

async fn prepare(client: Client) -> Result<Connected, StoreError> {
    let settings = format!("SET search_path TO {SCHEMA}; {SETTINGS}");
    answered(client.batch_execute(&settings)).await?;
    Ok(Connected { client, statements: Mutex::default() })
}

/// A connection with the statements that it has prepared. Several callers may use it at once: their statements are sent one after the
/// other, without waiting for answers.
pub(super) struct Connected {
    pub(super) client: Client,
    statements: Mutex<HashMap<String, Statement>>,
}

impl Connected {
    /// The prepared form of a statement. The texts are this program's and few.
    pub(super) async fn statement(&self, sql: &str) -> Result<Statement, tokio_postgres::Error> {
        let known = self.statements.lock().get(sql).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let prepared = self.client.prepare(sql).await?;
        self.statements.lock().insert(sql.to_owned(), prepared.clone());
        Ok(prepared)
    }

    /// Runs a statement and returns its rows.
    pub(super) async fn query(
        &self,
        sql: &str,
        values: &[SqlValue],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let statement = self.statement(sql).await?;
        self.run(&statement, values).await
    }

    /// Runs a prepared statement. Its messages are sent when the future is polled first.
    pub(super) async fn run(
        &self,
        statement: &Statement,
        values: &[SqlValue],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        self.client.query_raw(statement, values).await?.try_collect().await
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }
}

/// Waits for an answer of the database, but not for ever.
pub(super) async fn answered<T>(
    work: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, StoreError> {
    match tokio::time::timeout(ANSWER_TIMEOUT, work).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(errors::late()),
    }
}
