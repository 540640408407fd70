//! Data stores, known by the libraries that talk to them.

use sandyard_explain::facts::StoreFact;

use crate::scan::FileScan;

/// First part of an import, and the store behind it.
const STORES: &[(&str, &str)] = &[
    ("sqlite3", "SQLite"),
    ("aiosqlite", "SQLite"),
    ("better-sqlite3", "SQLite"),
    ("rusqlite", "SQLite"),
    ("modernc.org/sqlite", "SQLite"),
    ("github.com/mattn/go-sqlite3", "SQLite"),
    ("node:sqlite", "SQLite"),
    ("psycopg", "PostgreSQL"),
    ("psycopg2", "PostgreSQL"),
    ("asyncpg", "PostgreSQL"),
    ("pg", "PostgreSQL"),
    ("postgres", "PostgreSQL"),
    ("tokio_postgres", "PostgreSQL"),
    ("github.com/lib/pq", "PostgreSQL"),
    ("github.com/jackc/pgx", "PostgreSQL"),
    ("pymysql", "MySQL"),
    ("mysql", "MySQL"),
    ("mysql2", "MySQL"),
    ("MySQLdb", "MySQL"),
    ("github.com/go-sql-driver/mysql", "MySQL"),
    ("redis", "Redis"),
    ("ioredis", "Redis"),
    ("aioredis", "Redis"),
    ("github.com/redis/go-redis", "Redis"),
    ("github.com/go-redis/redis", "Redis"),
    ("pymongo", "MongoDB"),
    ("motor", "MongoDB"),
    ("mongoose", "MongoDB"),
    ("mongodb", "MongoDB"),
    ("go.mongodb.org/mongo-driver", "MongoDB"),
    ("elasticsearch", "Elasticsearch"),
    ("@elastic/elasticsearch", "Elasticsearch"),
    ("sqlalchemy", "SQL database"),
    ("sqlmodel", "SQL database"),
    ("peewee", "SQL database"),
    ("django.db", "SQL database"),
    ("tortoise", "SQL database"),
    ("sqlx", "SQL database"),
    ("diesel", "SQL database"),
    ("sea_orm", "SQL database"),
    ("typeorm", "SQL database"),
    ("sequelize", "SQL database"),
    ("knex", "SQL database"),
    ("@prisma/client", "SQL database"),
    ("drizzle-orm", "SQL database"),
    ("database/sql", "SQL database"),
    ("gorm.io/gorm", "SQL database"),
    ("java.sql", "SQL database"),
    ("javax.persistence", "SQL database"),
    ("jakarta.persistence", "SQL database"),
    ("boto3", "AWS services"),
    ("@aws-sdk/client-s3", "S3"),
    ("aws_sdk_s3", "S3"),
    ("object_store", "object store"),
    ("kafka", "Kafka"),
    ("kafkajs", "Kafka"),
    ("rdkafka", "Kafka"),
    ("pika", "RabbitMQ"),
    ("amqplib", "RabbitMQ"),
    ("lapin", "RabbitMQ"),
    ("sled", "sled"),
    ("rocksdb", "RocksDB"),
    ("leveldb", "LevelDB"),
    ("lmdb", "LMDB"),
    ("sqlite3.h", "SQLite"),
    ("libpq-fe.h", "PostgreSQL"),
];

/// The stores that a file imports, each with its first line.
pub(crate) fn stores(file: usize, scan: &FileScan) -> Vec<StoreFact> {
    let mut found: Vec<StoreFact> = Vec::new();
    for import in scan.imports.iter().filter(|import| import.level == 0) {
        let known = STORES.iter().find(|(library, _)| {
            let rest = import.module.strip_prefix(library);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '/', ':']))
        });
        let Some((_, name)) = known else { continue };
        if found.iter().all(|store| store.name != *name) {
            found.push(StoreFact {
                name: (*name).to_owned(),
                file,
                line: import.line,
                symbol: import.symbol.clone(),
            });
        }
    }
    found
}
