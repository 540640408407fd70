//! The address of a server: an HTTP address, or a Unix socket in the data folder.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

/// The address of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServerAddress {
    /// `http://host:port` or `https://host`, without a slash at the end.
    Http(String),
    /// Path of a Unix socket.
    Socket(PathBuf),
}

/// The text is not the address of a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no address of a server")]
pub(crate) struct InvalidUrl(String);

impl ServerAddress {
    /// Parses `http://host[:port]` or `https://host[:port]`; a missing scheme is `http`.
    pub(crate) fn parse(text: &str) -> Result<Self, InvalidUrl> {
        let invalid = || InvalidUrl(text.to_owned());
        let with_scheme = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let url = reqwest::Url::parse(&with_scheme).map_err(|_| invalid())?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() || url.query().is_some() {
            return Err(invalid());
        }
        Ok(Self::Http(url.as_str().trim_end_matches('/').to_owned()))
    }

    /// Returns the base that paths are appended to.
    pub(crate) fn base(&self) -> &str {
        match self {
            Self::Http(base) => base,
            Self::Socket(_) => "http://localhost",
        }
    }

    /// True if the server is on this machine.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Self::Socket(_) => true,
            Self::Http(base) => {
                reqwest::Url::parse(base).ok().and_then(|url| url.host_str().map(is_loopback)) == Some(true)
            }
        }
    }
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(base) => formatter.write_str(base),
            Self::Socket(path) => write!(formatter, "{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_with_and_without_scheme() {
        for text in ["127.0.0.1:8000", "http://127.0.0.1:8000", "http://127.0.0.1:8000/"] {
            assert_eq!(
                ServerAddress::parse(text),
                Ok(ServerAddress::Http("http://127.0.0.1:8000".into())),
                "{text}"
            );
        }
    }

    #[test]
    fn an_address_behind_tls_is_kept() {
        let address = ServerAddress::parse("https://yard.example/").unwrap();
        assert_eq!(address, ServerAddress::Http("https://yard.example".into()));
        assert!(!address.is_local());
    }

    #[test]
    fn other_schemes_and_nonsense_are_refused() {
        for text in ["ftp://x", "http://", "http://h/?x=1", "::"] {
            assert!(ServerAddress::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn loopback_is_local() {
        for (text, local) in [
            ("http://127.0.0.1:8000", true),
            ("http://localhost:1", true),
            ("http://[::1]:1", true),
            ("http://192.0.2.1:8000", false),
            ("http://yard.example", false),
        ] {
            assert_eq!(ServerAddress::parse(text).unwrap().is_local(), local, "{text}");
        }
    }
}
