//! Why a yard can't be served.

use std::io;
use std::path::PathBuf;

use sandyard_server::app::StartYardError;
use sandyard_server::auth::KeyFileError;
use sandyard_server::config::BadKey;

use crate::drivers::{self, OpenDriverError};

/// A yard could not be served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    /// The data folder can't be used.
    #[error("{action} `{}`", path.display())]
    Data {
        /// What was being done.
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// The shipped recording can't be put together.
    #[error("put the shipped recording together")]
    Demo(#[source] serde_json::Error),
    /// Another process serves this yard.
    #[error("the yard `{}` is served by another process{owner}", path.display())]
    InUse {
        /// Which yard.
        path: PathBuf,
        /// Which process, if it says.
        owner: String,
    },
    /// The address can't be had.
    #[error("listen on {address}")]
    Listen {
        /// Which.
        address: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A provider's key can't be used; it is never shown.
    #[error("the key in {variable}")]
    ModelKey {
        /// Where it was found.
        variable: &'static str,
        /// What is wrong with it.
        #[source]
        source: BadKey,
    },
    /// The key can't be used.
    #[error("prepare the server's key")]
    Key(#[from] KeyFileError),
    /// The yard can't be opened.
    #[error("open the yard")]
    Yard(#[from] StartYardError),
    /// The yard can't go on; the next server finds everything as it is on disk.
    #[error("the yard can't go on: {0}")]
    Broken(String),
    /// A driver that this machine can run fails to open.
    #[error(transparent)]
    Driver(#[from] OpenDriverError),
    /// A driver nobody knows.
    #[error("there is no driver `{0}`")]
    UnknownDriver(String),
}

impl ServeError {
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::InUse { .. } => Some("use that server, or give this one another --data".to_owned()),
            Self::Listen { .. } => {
                Some("another program may be there; choose another address with --listen".to_owned())
            }
            Self::UnknownDriver(_) => {
                let known: Vec<_> = drivers::names().collect();
                Some(format!("known drivers: auto, {}", known.join(", ")))
            }
            Self::Broken(_) => {
                Some("look at the disk of the data folder, then start again; no job is lost".to_owned())
            }
            Self::Key(KeyFileError::Exposed { path, .. }) => Some(format!("chmod 600 {}", path.display())),
            _ => None,
        }
    }
}
