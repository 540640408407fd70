//! Errors of a server.

use std::io;
use std::path::PathBuf;

use sandyard_sandbox::warden::OpenWardenError;
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
    /// The privileged process could not open the drivers.
    #[error("open the drivers")]
    Drivers(#[source] OpenWardenError),
    /// The privileged process could not be started.
    #[error("start the privileged process of the drivers")]
    Warden(#[source] io::Error),
    /// The privileged process is gone. The next server finds everything on disk.
    #[error("the privileged process of the drivers ended")]
    WardenEnded,
    /// A server of root could not become an ordinary user.
    #[error("give up the privileges of root")]
    Drop(#[source] io::Error),
    /// The server can't run as this user.
    #[error("there is no user `{0}` that a server could run as")]
    User(String),
    /// The process that serves for a `run` failed. The text is its chain of errors.
    #[error("{reason}")]
    Embedded { reason: String, hint: Option<String> },
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
            Self::WardenEnded => Some("start again; no job is lost, and sandboxes go on".to_owned()),
            Self::User(_) => Some("name an ordinary user of this host in SANDYARD_USER, or none".to_owned()),
            Self::Embedded { hint, .. } => hint.clone(),
            Self::Broken(_) => {
                Some("look at the disk of the data folder, then start again; no job is lost".to_owned())
            }
            Self::Key(KeyFileError::Exposed { path, .. }) => Some(format!("chmod 600 {}", path.display())),
            _ => None,
        }
    }
}
