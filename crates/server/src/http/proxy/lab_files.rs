//! The audit of JupyterLab's files: requests to its interface for contents are recorded in the job's audit.
//!
//! Kernels speak over a WebSocket, which is not read: a workspace diff finds the changes of their code.

use axum::http::Method;
use axum::response::Response;

use super::LAB_PORT;
use crate::app::{AppError, JobAccess};
use crate::audit::{BodyFacts, CallEnd, CallFacts, cut};
use crate::http::HttpState;
use crate::yard::RecordedCall;

/// Paths below which JupyterLab serves files.
const FILE_PATHS: [&str; 2] = ["/api/contents", "/files/"];
/// Longest path in a record; the page chose it.
const MAX_PATH_BYTES: usize = 500;

/// A request that was recorded and has no result yet.
pub(super) struct RecordedFileCall {
    call: RecordedCall,
    changes: bool,
}

/// Records a request about files of JupyterLab. `None` for any other request.
pub(super) async fn record(
    state: &HttpState,
    job: &JobAccess,
    port: u16,
    method: &Method,
    target: &str,
) -> Result<Option<RecordedFileCall>, AppError> {
    // Without the query, which may hold anything.
    let path = target.split('?').next().unwrap_or_default();
    let Some(prefix) = FILE_PATHS.iter().find(|prefix| port == LAB_PORT && path.starts_with(**prefix)) else {
        return Ok(None);
    };
    let path = path.strip_prefix(prefix).unwrap_or_default().trim_start_matches('/');
    let call = CallFacts::File {
        operation: method.as_str().to_owned(),
        path: cut(path, MAX_PATH_BYTES),
        through: Some("lab"),
    };
    let call = state.yard().record_call(job, call, BodyFacts::default()).await?;
    let changes = !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    Ok(call.map(|call| RecordedFileCall { call, changes }))
}

impl RecordedFileCall {
    /// Records the status of the answer, and requests a workspace diff if the call may have changed files.
    pub(super) fn ended(self, answer: Option<&Response>) {
        if self.changes {
            self.call.diff_workspace();
        }
        self.call.ended(CallEnd::Forwarded { status: answer.map(|answer| answer.status().as_u16()) });
    }
}
