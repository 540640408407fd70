//! From any refusal to the one error body of the contract.
//!
//! A handler returns a [`HttpFailure`]; `gate` writes its body, because only there the request's id is known.

use axum::body::Body;
use axum::http::header::{ALLOW, CONTENT_RANGE, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use sandyard_api::{ApiError, ErrorBody, ErrorCode, ErrorDetail};
use sandyard_protocol::{GuestError, GuestErrorCode};
use sandyard_sandbox::machine::MachineError;

use crate::app::AppError;

/// The answer of a handler, or its failure.
pub(in crate::http) type HttpAnswer = Result<Response, HttpFailure>;

/// A refusal or failure on its way out.
#[derive(Debug, Clone)]
pub(in crate::http) struct HttpFailure {
    code: ErrorCode,
    message: String,
    hint: Option<String>,
    retry_after_s: Option<u64>,
    /// For 416: the length of the requested content.
    length: Option<u64>,
}

impl HttpFailure {
    /// Returns the stable code of the HTTP contract.
    pub(in crate::http) fn code(&self) -> &'static str {
        self.code.as_str()
    }

    /// Its status.
    pub(in crate::http) fn status(&self) -> StatusCode {
        status(self.code)
    }

    /// The sentence for a person.
    pub(in crate::http) fn message(&self) -> &str {
        &self.message
    }

    /// A range that lies outside of `length` bytes.
    pub(in crate::http) fn outside(length: u64) -> Self {
        let error = ApiError::new(
            ErrorCode::RangeNotSatisfiable,
            format!("the range lies outside of {length} bytes"),
        );
        Self { length: Some(length), ..error.into() }
    }

    /// The whole answer for the request with this id; headers that the framework set (`Allow`) are kept.
    pub(in crate::http) fn render(&self, request_id: &str, kept: &HeaderMap) -> Response {
        let body = ErrorBody {
            error: ErrorDetail {
                code: self.code.as_str().to_owned(),
                message: self.message.clone(),
                hint: self.hint.clone(),
                request_id: request_id.to_owned(),
            },
        };
        let mut response = Response::new(Body::from(serde_json::to_vec(&body).unwrap_or_default()));
        let status = status(self.code);
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(allow) = kept.get(ALLOW) {
            headers.insert(ALLOW, allow.clone());
        }
        if let Some(seconds) = self.retry_after_s {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(range) = self.length.and_then(|length| format!("bytes */{length}").parse().ok()) {
            headers.insert(CONTENT_RANGE, range);
        }
        response
    }
}

impl IntoResponse for HttpFailure {
    fn into_response(self) -> Response {
        let mut response = status(self.code).into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<ApiError> for HttpFailure {
    fn from(error: ApiError) -> Self {
        Self {
            code: error.code,
            message: error.message,
            hint: error.hint,
            retry_after_s: error.retry_after_s,
            length: None,
        }
    }
}

impl From<AppError> for HttpFailure {
    fn from(error: AppError) -> Self {
        let retry_after_s = match status(error.code) {
            StatusCode::TOO_MANY_REQUESTS => error.retry_after_s.or(Some(1)),
            _ => error.retry_after_s,
        };
        Self { code: error.code, message: error.message, hint: error.hint, retry_after_s, length: None }
    }
}

impl From<MachineError> for HttpFailure {
    fn from(error: MachineError) -> Self {
        match error {
            MachineError::Guest(error) => guest_refusal(&error).into(),
            MachineError::Lost => {
                ApiError::new(ErrorCode::SandboxFailed, "the sandbox can't be reached at the moment")
                    .with_hint("the job's status says whether it is still live")
                    .into()
            }
            MachineError::Finishing => AppError::finishing().into(),
            MachineError::Deadline => {
                ApiError::new(ErrorCode::SandboxTimeout, "the sandbox did not answer in time").into()
            }
            MachineError::Malformed(detail) => {
                tracing::warn!(detail, "malformed answer of a sandbox");
                ApiError::new(ErrorCode::SandboxFailed, "the sandbox gave a malformed answer").into()
            }
        }
    }
}

/// The guest's message is bounded by the protocol and is sent as JSON text only.
fn guest_refusal(error: &GuestError) -> ApiError {
    let code = match error.code {
        GuestErrorCode::BadRequest => ErrorCode::BadRequest,
        GuestErrorCode::NotFound => ErrorCode::FileNotFound,
        GuestErrorCode::InvalidPath => ErrorCode::InvalidPath,
        GuestErrorCode::NotADirectory => ErrorCode::NotADirectory,
        GuestErrorCode::IsADirectory => ErrorCode::IsADirectory,
        GuestErrorCode::AlreadyExists => ErrorCode::AlreadyExists,
        GuestErrorCode::NotEmpty => ErrorCode::NotEmpty,
        GuestErrorCode::PermissionDenied => ErrorCode::PermissionDenied,
        GuestErrorCode::NoSpace => ErrorCode::NoSpace,
        GuestErrorCode::LimitReached => ErrorCode::LimitReached,
        GuestErrorCode::EditMismatch => ErrorCode::EditMismatch,
        GuestErrorCode::Controlled => ErrorCode::DesktopControlled,
        GuestErrorCode::SpawnFailed => ErrorCode::SpawnFailed,
        GuestErrorCode::ConnectionRefused | GuestErrorCode::Internal => ErrorCode::SandboxFailed,
    };
    let refusal = ApiError::new(code, error.message.clone());
    match code {
        ErrorCode::NotEmpty => refusal.with_hint("add ?recursive=1 to remove it with all that is in it"),
        ErrorCode::DesktopControlled => {
            refusal.with_hint("wait until it is given back (`wait_s` waits for it), or ask the person")
        }
        ErrorCode::EditMismatch => {
            refusal.with_hint("each `old` must occur exactly once; nothing was changed")
        }
        _ => refusal,
    }
}

fn status(code: ErrorCode) -> StatusCode {
    StatusCode::from_u16(code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_keeps_its_status_and_allow_header() {
        let failure =
            HttpFailure::from(ApiError::new(ErrorCode::MethodNotAllowed, "no").with_retry_after_s(3));
        let kept = HeaderMap::from_iter([(ALLOW, HeaderValue::from_static("GET"))]);
        let response = failure.render("r", &kept);
        assert_eq!(response.status(), 405);
        assert_eq!(response.headers()[ALLOW], "GET");
        assert_eq!(response.headers()[RETRY_AFTER], "3");
        assert_eq!(HttpFailure::outside(7).render("r", &kept).headers()[CONTENT_RANGE], "bytes */7");
    }

    #[test]
    fn a_busy_yard_always_says_when_to_come_back() {
        let failure = HttpFailure::from(AppError::new(ErrorCode::QueueFull, "full"));
        assert_eq!(failure.render("r", &HeaderMap::new()).headers()[RETRY_AFTER], "1");
    }
}
