//! Failures of roles.

/// Why a role failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReaderFailure {
    /// The command line is wrong.
    #[error("{0}")]
    Usage(String),
    /// The process could not give up its rights.
    #[error("confine the reader: {0}")]
    Confine(String),
    /// The folder can't be read.
    #[error("{0}: {1}")]
    Read(String, std::io::Error),
    /// The result can't be written.
    #[error("write the result: {0}")]
    Write(#[from] serde_json::Error),
    /// The index can't be used.
    #[error("{0}")]
    Index(#[from] sandyard_context::index::IndexError),
    /// The embedding of this program is damaged.
    #[error("{0}")]
    Model(#[from] sandyard_context::ModelFlaw),
}
