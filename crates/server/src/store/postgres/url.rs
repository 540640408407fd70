//! The address of a PostgreSQL database, which may hold a password.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

/// Longest attempt to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time without an answer of the other host's kernel after which a connection counts as cut.
const DEAD_AFTER: Duration = Duration::from_secs(10);

/// A database, with user and password. Prints without the password.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresUrl {
    config: Config,
    /// File with the certificates that its server is verified by; `None` for those of this host.
    root_certificates: Option<PathBuf>,
}

/// The text is no address of a database. It is not repeated: it may hold a password.
#[derive(Debug, thiserror::Error)]
pub enum BadPostgresUrl {
    /// It has another scheme, or none.
    #[error("not an address like postgres://user:password@host/database")]
    Scheme,
    /// A part of it can't be read.
    #[error("the address of the database can't be read")]
    Part(#[source] tokio_postgres::Error),
    /// It names no host.
    #[error("the address names no host; a socket is named as postgres:///database?host=/run/postgresql")]
    NoHost,
}

impl PostgresUrl {
    /// True if a text is meant to be the address of a PostgreSQL database.
    pub fn is_meant_by(text: &str) -> bool {
        text.starts_with("postgres://") || text.starts_with("postgresql://")
    }

    /// Reads an address. `sslrootcert` and the stricter values of `sslmode` have the meaning that they have for `psql`; without them
    /// the server's certificate is verified all the same.
    pub fn parse(text: &str) -> Result<Self, BadPostgresUrl> {
        if !Self::is_meant_by(text) {
            return Err(BadPostgresUrl::Scheme);
        }
        let (base, query) = text.split_once('?').unwrap_or((text, ""));
        let (mut kept, mut root_certificates) = (Vec::new(), None);
        for part in query.split('&').filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some(("sslrootcert", path)) => {
                    let path = form_urlencoded::parse(format!("path={path}").as_bytes())
                        .next()
                        .map(|(_, path)| path.into_owned());
                    root_certificates = path.map(PathBuf::from);
                }
                // Every certificate is verified, so these ask for nothing more.
                Some(("sslmode", "verify-full" | "verify-ca")) => kept.push("sslmode=require"),
                _ => kept.push(part),
            }
        }
        let mut config: Config =
            format!("{base}?{}", kept.join("&")).parse().map_err(BadPostgresUrl::Part)?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(BadPostgresUrl::NoHost);
        }
        config.connect_timeout(CONNECT_TIMEOUT).tcp_user_timeout(DEAD_AFTER).keepalives_idle(DEAD_AFTER);
        config.application_name("sandyard");
        Ok(Self { config, root_certificates })
    }

    /// Gives the address a password, if it has none.
    #[must_use]
    pub fn or_password(mut self, password: &str) -> Self {
        if self.config.get_password().is_none() {
            self.config.password(password);
        }
        self
    }

    pub(super) fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the file with the certificates that the database is verified by, if the address names one.
    pub fn root_certificates(&self) -> Option<&Path> {
        self.root_certificates.as_deref()
    }

    /// True if connections are never encrypted: it says so, or the server is on this host.
    pub(super) fn is_plain(&self) -> bool {
        self.config.get_ssl_mode() == SslMode::Disable
            || self.config.get_hosts().iter().all(|host| matches!(host, Host::Unix(_)))
    }
}

impl fmt::Display for PostgresUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<String> = self
            .config
            .get_hosts()
            .iter()
            .map(|host| match host {
                Host::Tcp(name) => name.clone(),
                Host::Unix(path) => path.display().to_string(),
            })
            .collect();
        let database = self.config.get_dbname().or(self.config.get_user()).unwrap_or_default();
        write!(formatter, "postgres://{}/{database}", hosts.join(","))
    }
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_never_prints_its_password() {
        let url =
            PostgresUrl::parse("postgresql://yard:hunter2@db.example:5433/jobs?sslmode=verify-full").unwrap();
        assert_eq!(
            (url.to_string(), format!("{url:?}")),
            ("postgres://db.example/jobs".into(), url.to_string())
        );
        assert_eq!(url.config.get_ssl_mode(), SslMode::Require);
        assert_eq!(url.config.get_password(), Some(&b"hunter2"[..]));
        for bad in
            ["postgres://yard:hunter2@db.example/x?no=such", "postgres://yard:hunter2@/x", "mysql://hunter2"]
        {
            let error = PostgresUrl::parse(bad).unwrap_err();
            let whole = format!("{error} {error:?}");
            assert!(!whole.contains("hunter2"), "{whole}");
        }
    }

    #[test]
    fn certificates_and_sockets_are_named_in_the_address() {
        let url =
            PostgresUrl::parse("postgres://a@db/x?sslrootcert=%2Fetc%2Fca.pem&sslmode=require").unwrap();
        assert_eq!(url.root_certificates(), Some(Path::new("/etc/ca.pem")));
        assert!(!url.is_plain());
        let socket = PostgresUrl::parse("postgres:///yard?host=/run/postgresql").unwrap();
        assert!(socket.is_plain());
        assert_eq!(socket.to_string(), "postgres:///run/postgresql/yard");
    }

    #[test]
    fn a_password_beside_the_address_does_not_replace_one_in_it() {
        let with = PostgresUrl::parse("postgres://a:in@db/x").unwrap().or_password("beside");
        assert_eq!(with.config.get_password(), Some(&b"in"[..]));
        let without = PostgresUrl::parse("postgres://a@db/x").unwrap().or_password("beside");
        assert_eq!(without.config.get_password(), Some(&b"beside"[..]));
    }
}
