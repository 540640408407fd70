//! Errors of commands, each with its exit code and hint.
//!
//! The text of an error describes its own level only; `ui` prints the chain once, as `error:`, `caused by:` and `hint:`.

use std::io;
use std::path::{Path, PathBuf};

use sandyard_sandbox::reader::ReaderError;
use sandyard_server::app::CopyStoreError;
use sandyard_server::http::mcp::StreamsError;

use crate::client::ClientError;
use crate::config::ConfigError;
use crate::exit_codes::CommandExit;
use crate::images::ImageError;
use crate::serve::ServeError;
use crate::ui::short_id;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// The server did not answer, or rejected the request.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The server could not start or continue.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The connection to an MCP client failed.
    #[error(transparent)]
    Tools(#[from] StreamsError),
    /// An image could not be built or removed.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// A store can't be copied.
    #[error(transparent)]
    StoreCopy(#[from] CopyStoreError),
    /// The arguments contradict each other or are incomplete.
    #[error("{message}")]
    Usage { message: String, hint: Option<String> },
    /// A file of this machine can't be read or written.
    #[error("{action} `{}`", path.display())]
    File {
        /// A verb in the infinitive, such as `read`.
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// An archive from the server can't be unpacked.
    #[error("unpack `{}`", path.display())]
    Archive {
        path: PathBuf,
        #[source]
        source: zip::result::ZipError,
    },
    /// The reader could not explain a folder.
    #[error("read the folder")]
    Reader(#[source] ReaderError),
    /// An audit can't be verified.
    #[error("check the audit")]
    Audit(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Standard output or the terminal failed.
    #[error("write the output")]
    Output(#[from] io::Error),
    /// No job has this id or name.
    #[error("no job is called `{0}`")]
    NoSuchJob(String),
    /// Several jobs have the given name.
    #[error("`{given}` is the name of {} jobs: {}", .found.len(), short_ids(.found))]
    AmbiguousJob { given: String, found: Vec<String> },
}

fn short_ids(found: &[String]) -> String {
    found.iter().map(|id| short_id(id)).collect::<Vec<_>>().join(", ")
}

impl CommandError {
    /// Returns an error about the command line.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), hint: None }
    }

    /// Returns an error about the command line with a hint.
    pub(crate) fn usage_with_hint(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), hint: Some(hint.into()) }
    }

    /// Returns a function for `map_err` on a call that concerns a path.
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { action, path: path.to_owned(), source }
    }

    /// Returns the exit code of the process.
    pub(crate) fn exit(&self) -> CommandExit {
        match self {
            Self::Client(error) => error.exit(),
            Self::Config(_) | Self::Usage { .. } => CommandExit::Usage,
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => CommandExit::BrokenPipe,
            Self::NoSuchJob(_) | Self::AmbiguousJob { .. } => CommandExit::Refused,
            _ => CommandExit::Failed,
        }
    }

    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Client(error) => error.hint(),
            Self::Config(error) => error.hint(),
            Self::Serve(error) => error.hint(),
            Self::Image(error) => error.hint(),
            Self::Usage { hint, .. } => hint.clone(),
            Self::NoSuchJob(_) => Some("`sandyard ps --all` lists the jobs that are kept".to_owned()),
            Self::AmbiguousJob { .. } => Some("write the beginning of an id".to_owned()),
            Self::Audit(_) => {
                Some("a job that never began has an empty download; its audit is on the server".to_owned())
            }
            Self::Reader(_) => {
                Some("the reader needs Linux 5.13 with Landlock; `sandyard doctor` tells".to_owned())
            }
            Self::StoreCopy(CopyStoreError::OtherYard { .. }) => {
                Some("a target is empty or has an earlier copy of the same yard".to_owned())
            }
            Self::StoreCopy(CopyStoreError::Rows(_)) => {
                Some("the same command goes on where this one ended".to_owned())
            }
            Self::StoreCopy(_) => Some("no server may work on either store".to_owned()),
            Self::File { .. } | Self::Archive { .. } | Self::Output(_) | Self::Tools(_) => None,
        }
    }
}
