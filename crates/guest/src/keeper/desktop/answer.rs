//! How a request about the desktop ends.

use sandyard_protocol::{GuestError, GuestErrorCode};

use crate::keeper::stream::HostStream;

/// Served, or refused before anything was sent.
pub(super) type DesktopAnswer = Result<(), (GuestError, HostStream)>;

/// A failure that the request did not cause.
pub(super) fn internal(message: impl Into<String>) -> GuestError {
    GuestError::new(GuestErrorCode::Internal, message)
}
