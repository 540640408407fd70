//! Every error that a client can receive: one closed set of stable codes, each with its HTTP status.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

/// An error body, the same for every route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    /// The error.
    pub error: ErrorDetail,
}

/// An error for programs (`code`) and for people (the rest).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorDetail {
    /// Stable code in snake_case.
    #[schema(value_type = ErrorCode)]
    pub code: String,
    /// The error in one sentence.
    pub message: String,
    /// How to avoid or fix it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub hint: Option<String>,
    /// Identifies this response in the log of the server.
    pub request_id: String,
}

/// A rejection or failure for a client. Its text must not reveal internals of the server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// Stable code of the error.
    pub code: ErrorCode,
    /// The error in one sentence, for a person.
    pub message: String,
    /// Remedy for a person.
    pub hint: Option<String>,
    /// Seconds after which a retry makes sense, for `Retry-After`.
    pub retry_after_s: Option<u64>,
}

impl ApiError {
    /// Returns an error without a hint.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: None, retry_after_s: None }
    }

    /// Adds a hint: how to avoid or fix the error.
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the time after which a retry makes sense.
    pub fn with_retry_after_s(mut self, seconds: u64) -> Self {
        self.retry_after_s = Some(seconds);
        self
    }

    /// Returns the response body for a request.
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
        /// Codes of all errors that a client can receive.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $($(#[doc = $doc])+ $name,)+
        }

        impl ErrorCode {
            /// Every code of this version.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// Returns the stable name, in snake_case.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// Returns the code of that name and status; a name may belong to two statuses.
            pub fn find(name: &str, status: u16) -> Option<Self> {
                Self::ALL.iter().copied().find(|code| code.as_str() == name && code.status() == status)
            }

            /// Returns the HTTP status of the code.
            pub fn status(self) -> u16 {
                match self { $(Self::$name => $status,)+ }
            }
        }
    };
}

error_codes! {
    /// A header, query or frame is malformed.
    BadRequest = 400 "bad_request",
    /// The body is not JSON.
    InvalidJson = 400 "invalid_json",
    /// A path that is malformed or would leave the workspace.
    InvalidPath = 400 "invalid_path",
    /// The cursor does not come from a list.
    InvalidCursor = 400 "invalid_cursor",
    /// No valid bearer key or ticket.
    Unauthorized = 401 "unauthorized",
    /// A proxy passed the request on, and the server has no key.
    NeedsKey = 403 "needs_key",
    /// The `Host` header names another server: a page may be rebinding a name to this address.
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
    /// The job had no desktop, so no screenshot exists.
    NoScreenshot = 404 "no_screenshot",
    /// The result holds no source code, or could not be explained.
    NotExplained = 404 "not_explained",
    /// The model has not answered at or behind the named journal entry.
    NoContext = 404 "no_context",
    /// No such kernel in the sandbox.
    UnknownKernel = 404 "unknown_kernel",
    /// No such execution, or its record was removed.
    UnknownExecution = 404 "unknown_execution",
    /// No such process in the sandbox, or it ended and was forgotten.
    UnknownProcess = 404 "unknown_process",
    /// The route does not support the method.
    MethodNotAllowed = 405 "method_not_allowed",
    /// The client was too slow.
    RequestTimeout = 408 "request_timeout",
    /// The beginning of an id belongs to several jobs.
    AmbiguousJob = 409 "ambiguous_job",
    /// The job has ended, so its time can't be extended.
    AlreadyEnded = 409 "already_ended",
    /// The job has not ended yet.
    NotEnded = 409 "not_ended",
    /// The job does not wait for an answer.
    NotWaiting = 409 "not_waiting",
    /// The job has no live sandbox now.
    SandboxNotLive = 409 "sandbox_not_live",
    /// The job is finishing: its workspace is being saved, and nothing may change it.
    Finishing = 409 "finishing",
    /// The idempotency key was used with another body.
    IdempotencyKeyReused = 409 "idempotency_key_reused",
    /// The target exists already.
    AlreadyExists = 409 "already_exists",
    /// The path is a file, but a folder is needed.
    NotADirectory = 409 "not_a_directory",
    /// The path is a folder, but a file is needed.
    IsADirectory = 409 "is_a_directory",
    /// The folder is not empty.
    NotEmpty = 409 "not_empty",
    /// A person controls the desktop.
    DesktopControlled = 409 "desktop_controlled",
    /// The `old` text of an edit does not occur exactly once.
    EditMismatch = 409 "edit_mismatch",
    /// `If-None-Match: *` on a file that exists.
    PreconditionFailed = 412 "precondition_failed",
    /// The body or file is too large.
    TooLarge = 413 "too_large",
    /// The route does not accept the content type.
    UnsupportedMediaType = 415 "unsupported_media_type",
    /// The range lies outside the content.
    RangeNotSatisfiable = 416 "range_not_satisfiable",
    /// The request has an unknown member.
    UnknownMember = 422 "unknown_member",
    /// A member that would weaken the sandbox.
    PrivilegedMember = 422 "privileged_member",
    /// A required member is absent.
    MissingMember = 422 "missing_member",
    /// Two members that exclude each other.
    ConflictingMembers = 422 "conflicting_members",
    /// A member of the wrong JSON type.
    InvalidType = 422 "invalid_type",
    /// A value outside its bounds.
    InvalidValue = 422 "invalid_value",
    /// The kind of job is unknown.
    UnknownKind = 422 "unknown_kind",
    /// No kernel supports the language.
    UnknownLanguage = 422 "unknown_language",
    /// The code is empty.
    EmptyCode = 422 "empty_code",
    /// The task is empty.
    EmptyTask = 422 "empty_task",
    /// The server has no model for tasks.
    NoModel = 422 "no_model",
    /// The server does not offer the model.
    UnknownModel = 422 "unknown_model",
    /// Well-formed, but this build can't do it.
    NotAvailable = 422 "not_available",
    /// The program could not be started.
    SpawnFailed = 422 "spawn_failed",
    /// A limit of the sandbox was reached.
    LimitReached = 422 "limit_reached",
    /// The limit exceeds what this server grants.
    LimitOutOfRange = 422 "limit_out_of_range",
    /// The isolation is unknown.
    UnknownIsolation = 422 "unknown_isolation",
    /// The flavour of the image is unknown, or the kind of job needs another.
    UnsuitableFlavour = 422 "unsuitable_flavour",
    /// The image that the job asks for is not built.
    ImageNotBuilt = 422 "image_not_built",
    /// Too many requests or too long a queue.
    TooManyRequests = 429 "too_many_requests",
    /// Too many jobs wait.
    QueueFull = 429 "queue_full",
    /// Too many tickets are open.
    TooManyTickets = 429 "too_many_tickets",
    /// The server failed.
    Internal = 500 "internal",
    /// This build lacks the capability of the route.
    RouteNotAvailable = 501 "not_available",
    /// The sandbox sent an invalid answer or disappeared.
    SandboxFailed = 502 "sandbox_failed",
    /// No available driver meets the requested isolation.
    NoDriver = 503 "no_driver",
    /// The store can't be written.
    StoreUnavailable = 503 "store_unavailable",
    /// The disk of the server is full.
    DiskFull = 503 "disk_full",
    /// The disk of the server can't be written.
    DiskUnavailable = 503 "disk_unavailable",
    /// The process of the server has too many files open.
    TooManyOpenFiles = 503 "too_many_open_files",
    /// The server has no memory or no connection left for the request.
    Overloaded = 503 "overloaded",
    /// The workspace could not be saved.
    NoArtifact = 503 "no_artifact",
    /// The workspace could not be packed.
    ExportFailed = 503 "export_failed",
    /// The server is stopping.
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
