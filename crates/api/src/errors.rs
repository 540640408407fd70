//! Every error a client can get: one closed set of stable codes, each with its HTTP status.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

/// An error body, the same for every route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    /// What went wrong.
    pub error: ErrorDetail,
}

/// What went wrong, for programs (`code`) and for people (the rest).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorDetail {
    /// Stable, in snake_case.
    #[schema(value_type = ErrorCode)]
    pub code: String,
    /// One sentence.
    pub message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hint: Option<String>,
    /// Finds this answer in the server's log.
    pub request_id: String,
}

/// A refusal or failure on its way to a client. Its text must hold nothing of the server's insides.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// Which of the known errors.
    pub code: ErrorCode,
    /// One sentence for a person.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// Seconds after which trying again makes sense, for `Retry-After`.
    pub retry_after_s: Option<u64>,
}

impl ApiError {
    /// An error without a hint.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None, retry_after_s: None }
    }

    /// The same with a hint.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same with a time after which to try again.
    pub fn with_retry_after_s(mut self, seconds: u64) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }

    /// The body for this request.
    pub fn body(&self, request_id: &str) -> ErrorBody {
        ErrorBody {
            error: ErrorDetail {
                code: self.code.as_str().to_owned(),
                message: self.message.clone(),
                hint: self.hint.clone(),
                request_id: request_id.to_owned(),
            },
        }
    }
}

macro_rules! error_codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $status:literal $text:literal,)+) => {
        /// The known errors.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $($(#[doc = $doc])+ $name,)+
        }

        impl ErrorCode {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// The stable name.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// The code of that name and status; a name may stand for two statuses.
            pub fn find(name: &str, status: u16) -> Option<Self> {
                Self::ALL.iter().copied().find(|code| code.as_str() == name && code.status() == status)
            }

            /// The HTTP status that goes with it.
            pub fn status(self) -> u16 {
                match self { $(Self::$name => $status,)+ }
            }
        }
    };
}

error_codes! {
    /// A header, query or frame can't be understood.
    BadRequest = 400 "bad_request",
    /// The body is not JSON.
    InvalidJson = 400 "invalid_json",
    /// A path that is malformed or would leave the workspace.
    InvalidPath = 400 "invalid_path",
    /// A cursor that no list gave.
    InvalidCursor = 400 "invalid_cursor",
    /// No valid bearer key or ticket.
    Unauthorized = 401 "unauthorized",
    /// The `Host` header names someone else: a page may be rebinding a name to this address.
    ForeignHost = 403 "foreign_host",
    /// The request comes from a page of another origin.
    ForeignOrigin = 403 "foreign_origin",
    /// The file's mode forbids it.
    PermissionDenied = 403 "permission_denied",
    /// No such route.
    NotFound = 404 "not_found",
    /// No such job.
    UnknownJob = 404 "unknown_job",
    /// No such file in the workspace.
    FileNotFound = 404 "file_not_found",
    /// The job had no desktop, so there is no picture of it.
    NoScreenshot = 404 "no_screenshot",
    /// No such kernel in the sandbox.
    UnknownKernel = 404 "unknown_kernel",
    /// No such execution, or it is no longer kept.
    UnknownExecution = 404 "unknown_execution",
    /// The route exists, the method does not.
    MethodNotAllowed = 405 "method_not_allowed",
    /// The client was too slow.
    RequestTimeout = 408 "request_timeout",
    /// The job has not ended yet.
    NotEnded = 409 "not_ended",
    /// The job does not wait for an answer.
    NotWaiting = 409 "not_waiting",
    /// The job has no live sandbox now.
    SandboxNotLive = 409 "sandbox_not_live",
    /// The idempotency key was used with another body.
    IdempotencyKeyReused = 409 "idempotency_key_reused",
    /// The target exists already.
    AlreadyExists = 409 "already_exists",
    /// A file is where a folder is needed.
    NotADirectory = 409 "not_a_directory",
    /// A folder is where a file is needed.
    IsADirectory = 409 "is_a_directory",
    /// The folder is not empty.
    NotEmpty = 409 "not_empty",
    /// A person controls the desktop.
    DesktopControlled = 409 "desktop_controlled",
    /// An edit's `old` text matched never or more than once.
    EditMismatch = 409 "edit_mismatch",
    /// `If-None-Match: *` on a file that exists.
    PreconditionFailed = 412 "precondition_failed",
    /// More bytes than accepted here.
    TooLarge = 413 "too_large",
    /// A content type this route does not take.
    UnsupportedMediaType = 415 "unsupported_media_type",
    /// The range lies outside the content.
    RangeNotSatisfiable = 416 "range_not_satisfiable",
    /// A member nobody knows.
    UnknownMember = 422 "unknown_member",
    /// A member that would weaken the sandbox.
    PrivilegedMember = 422 "privileged_member",
    /// A needed member is absent.
    MissingMember = 422 "missing_member",
    /// Two members that exclude each other.
    ConflictingMembers = 422 "conflicting_members",
    /// A member of the wrong JSON type.
    InvalidType = 422 "invalid_type",
    /// A value outside its bounds.
    InvalidValue = 422 "invalid_value",
    /// A kind of job nobody knows.
    UnknownKind = 422 "unknown_kind",
    /// A language that no kernel understands.
    UnknownLanguage = 422 "unknown_language",
    /// Code of no characters.
    EmptyCode = 422 "empty_code",
    /// A task of no characters.
    EmptyTask = 422 "empty_task",
    /// A task without a model to work on it.
    NoModel = 422 "no_model",
    /// A model that this server does not offer.
    UnknownModel = 422 "unknown_model",
    /// Well-formed, but this build can't do it.
    NotAvailable = 422 "not_available",
    /// The program could not be started.
    SpawnFailed = 422 "spawn_failed",
    /// A bound of the sandbox was reached.
    LimitReached = 422 "limit_reached",
    /// A limit beyond what this server grants.
    LimitOutOfRange = 422 "limit_out_of_range",
    /// An isolation this server does not know.
    UnknownIsolation = 422 "unknown_isolation",
    /// Too many requests or too long a queue.
    TooManyRequests = 429 "too_many_requests",
    /// Too many jobs wait.
    QueueFull = 429 "queue_full",
    /// Too many tickets are open.
    TooManyTickets = 429 "too_many_tickets",
    /// A fault of the server.
    Internal = 500 "internal",
    /// The route belongs to a capability this build lacks.
    RouteNotAvailable = 501 "not_available",
    /// The sandbox answered with nonsense or went away.
    SandboxFailed = 502 "sandbox_failed",
    /// No driver that meets the floor can run here.
    NoDriver = 503 "no_driver",
    /// The store can't be written now.
    StoreUnavailable = 503 "store_unavailable",
    /// The yard's disk is full.
    DiskFull = 503 "disk_full",
    /// The yard's disk can't be written.
    DiskUnavailable = 503 "disk_unavailable",
    /// The workspace could not be saved.
    NoArtifact = 503 "no_artifact",
    /// The workspace could not be packed.
    ExportFailed = 503 "export_failed",
    /// The server is going down.
    Stopping = 503 "stopping",
    /// The sandbox did not answer in time.
    SandboxTimeout = 504 "sandbox_timeout",
    /// The workspace is full.
    NoSpace = 507 "no_space",
}

impl PartialSchema for ErrorCode {
    fn schema() -> RefOr<Schema> {
        let mut names: Vec<&str> = Self::ALL.iter().map(|code| code.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let schema = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names));
        schema.description(Some("The known errors.")).into()
    }
}

impl ToSchema for ErrorCode {}

impl fmt::Display for ErrorCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_snake_case_and_statuses_are_errors() {
        for code in ErrorCode::ALL {
            assert!(code.as_str().bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{code}");
            assert!((400..600).contains(&code.status()), "{code}");
        }
    }

    #[test]
    fn a_body_without_hint_has_no_hint_member() {
        let body = ApiError::new(ErrorCode::UnknownJob, "no such job").body("r1");
        let json = serde_json::to_string(&body).unwrap();
        assert_eq!(json, r#"{"error":{"code":"unknown_job","message":"no such job","request_id":"r1"}}"#);
    }
}
