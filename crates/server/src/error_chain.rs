//! Formats errors with their causes, for logs and people.

use sandyard_protocol::ErrorChain;

/// Returns an error and its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    ErrorChain(error).to_string()
}
