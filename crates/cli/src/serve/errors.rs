//! Errors of a server.

use std::io;
use std::path::PathBuf;

use sandyard_server::app::StartYardError;
use sandyard_server::auth::KeyFileError;
use sandyard_server::config::BadKey;

use crate::drivers::{self, OpenDriverError};

/// Why a yard can't be served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    /// The data folder can't be used.
    #[error("{action} `{}`", path.display())]
    Data {
        /// A verb in the infinitive, such as `create`.
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The shipped recording can't be assembled.
    #[error("assemble the shipped recording")]
    Demo(#[source] serde_json::Error),
    /// Another process serves this yard.
    #[error("the yard `{}` is served by another process{owner}", path.display())]
    InUse {
        path: PathBuf,
        /// The process id, if the lock file contains it.
        owner: String,
    },
    /// The server can't listen on the address.
    #[error("listen on {address}")]
    Listen {
        address: String,
        #[source]
        source: io::Error,
    },
    /// The key of a provider is unusable. The text never contains the key.
    #[error("the key in {variable}")]
    ModelKey {
        /// The environment variable with the key.
        variable: &'static str,
        #[source]
        source: BadKey,
    },
    /// The key file of the server can't be used.
    #[error("prepare the server's key")]
    Key(#[from] KeyFileError),
    /// The yard can't be opened.
    #[error("open the yard")]
    Yard(#[from] StartYardError),
    /// The yard can't continue. The next server finds everything on disk.
    #[error("the yard can't continue: {0}")]
    Broken(String),
    /// A driver that this machine can run failed to open.
    #[error(transparent)]
    Driver(#[from] OpenDriverError),
    /// No such driver exists.
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
