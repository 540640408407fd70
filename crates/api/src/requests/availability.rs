//! What the contract knows and this build can't do yet: refused after everything else was found in order, so
//! that a mistake is reported as a mistake.

use super::schedule::ScheduleRequest;
use crate::{ApiError, ErrorCode};

/// Refuses a request that needs a capability this build lacks.
pub fn refuse_what_is_not_built(request: &ScheduleRequest) -> Result<(), ApiError> {
    if request.git.is_some() {
        return Err(not_available("`git` can't be fetched: this build does not start from repositories yet")
            .with_hint("bring the sources in `files`, or PUT them into a session"));
    }
    Ok(())
}

fn not_available(message: &str) -> ApiError {
    ApiError::new(ErrorCode::NotAvailable, message)
}
