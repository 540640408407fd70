//! Errors for logs and people: the error and all its causes.

use sandyard_protocol::ErrorChain;

/// An error and its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    ErrorChain(error).to_string()
}
