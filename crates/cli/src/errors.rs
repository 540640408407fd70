//! What can stop a command, with the exit code and the hint that go with it.
//!
//! Each level's text tells its own level only; `ui` prints the chain once, as `error:`, `caused by:` and `hint:`.

use std::io;
use std::path::{Path, PathBuf};

use sandyard_server::http::mcp::StreamsError;

use crate::client::ClientError;
use crate::config::ConfigError;
use crate::exit_codes::Exit;
use crate::images::ImageError;
use crate::serve::ServeError;

/// A command could not be carried out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// The server could not be asked, or refused.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The server could not start or go on.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// A client of the tools could not be served.
    #[error(transparent)]
    Tools(#[from] StreamsError),
    /// An image could not be made or removed.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The command line makes no sense together.
    #[error("{message}")]
    Usage {
        /// What is wrong.
        message: String,
        /// What to write instead.
        hint: Option<String>,
    },
    /// Something on this machine can't be read or written.
    #[error("{action} `{}`", path.display())]
    File {
        /// What was being done.
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// An archive from the server can't be unpacked.
    #[error("unpack `{}`", path.display())]
    Archive {
        /// Where to.
        path: PathBuf,
        /// Why.
        #[source]
        source: zip::result::ZipError,
    },
    /// An audit can't be checked.
    #[error("check the audit")]
    Audit(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Our own standard output or terminal failed.
    #[error("write the output")]
    Output(#[from] io::Error),
    /// No job fits what was given.
    #[error("no job is called `{0}`")]
    NoSuchJob(String),
    /// More than one job fits.
    #[error("`{given}` could be any of {count} jobs")]
    AmbiguousJob {
        /// What was given.
        given: String,
        /// How many fit.
        count: usize,
    },
}

impl CommandError {
    /// A wrong command line.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), hint: None }
    }

    /// A wrong command line, with what to write instead.
    pub(crate) fn usage_with_hint(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), hint: Some(hint.into()) }
    }

    /// For `map_err` on a call that concerns a path.
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { action, path: path.to_owned(), source }
    }

    /// What the process ends with.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Client(error) => error.exit(),
            Self::Config(_) | Self::Usage { .. } => Exit::Usage,
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => Exit::BrokenPipe,
            Self::NoSuchJob(_) | Self::AmbiguousJob { .. } => Exit::Refused,
            _ => Exit::Failed,
        }
    }

    /// What to do about it.
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Client(error) => error.hint(),
            Self::Config(error) => error.hint(),
            Self::Serve(error) => error.hint(),
            Self::Image(error) => error.hint(),
            Self::Usage { hint, .. } => hint.clone(),
            Self::NoSuchJob(_) => Some("`sandyard ps --all` lists the jobs that are kept".to_owned()),
            Self::AmbiguousJob { .. } => Some("write more of the id".to_owned()),
            Self::Audit(_) => {
                Some("a job that never began has an empty download; its audit is on the server".to_owned())
            }
            Self::File { .. } | Self::Archive { .. } | Self::Output(_) | Self::Tools(_) => None,
        }
    }
}
