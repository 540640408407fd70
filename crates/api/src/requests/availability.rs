//! What the contract knows and this build can't do yet: refused after everything else was found in order, so
//! that a mistake is reported as a mistake.

use super::schedule::{JobKind, ScheduleRequest};
use crate::{ApiError, ErrorCode};

/// Refuses a request that needs a capability this build lacks.
pub fn refuse_what_is_not_built(request: &ScheduleRequest) -> Result<(), ApiError> {
    if request.kind == JobKind::Task {
        return Err(no_agent());
    }
    Ok(())
}

fn no_agent() -> ApiError {
    ApiError::new(ErrorCode::NoModel, "no model is configured: tasks need the agent, which this build does not have")
        .with_hint(
            "run code instead: {\"kind\": \"shell\", \"code\": \"…\"} or {\"kind\": \"session\"}. Builds with the agent take a \
             model from `sandyard up --model SPEC` or SANDYARD_MODEL with the provider's key, and `sandyard demo` shows a \
             task without any key",
        )
}
