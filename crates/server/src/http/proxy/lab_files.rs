//! What a person does with files in JupyterLab: requests to its own interface for contents, noted in the job's audit.
//!
//! Kernels speak over a WebSocket, which is not read: what their code changes is found by a look at the workspace.

use axum::http::Method;
use axum::response::Response;

use crate::audit::{BodyFacts, CallEnd, CallFacts, CallRecord, cut};
use crate::auth::Caller;
use crate::auth::origins::JobOrigin;
use crate::http::HttpState;
use crate::http::lab::PORT;
use crate::store::StoreError;
use crate::yard::RecordedCall;

/// Where JupyterLab serves files.
const PLACES: [&str; 2] = ["/api/contents", "/files/"];
/// Of a path that the page chose.
const PATH_BYTES: usize = 500;

/// A request that was noted.
pub(super) struct Witnessed {
    call: RecordedCall,
    changes: bool,
}

/// Notes a request about files; nothing else is.
pub(super) async fn note(
    state: &HttpState,
    origin: &JobOrigin,
    method: &Method,
    target: &str,
) -> Result<Option<Witnessed>, StoreError> {
    // Without the query, which may hold anything.
    let path = target.split('?').next().unwrap_or_default();
    let Some(place) = PLACES.iter().find(|place| origin.port == PORT && path.starts_with(**place)) else {
        return Ok(None);
    };
    let path = path.strip_prefix(place).unwrap_or_default().trim_start_matches('/');
    let call = CallFacts::File {
        operation: method.as_str().to_owned(),
        path: cut(path, PATH_BYTES),
        through: Some("lab"),
    };
    let call = CallRecord { call, body: BodyFacts::default(), caller: Caller::pass().facts() };
    let call = state.yard().record_call(&origin.job, call).await?;
    let changes = !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    Ok(call.map(|call| Witnessed { call, changes }))
}

impl Witnessed {
    /// It is over.
    pub(super) fn ended(self, answer: Option<&Response>) {
        if self.changes {
            self.call.diff_workspace();
        }
        self.call.ended(CallEnd::Forwarded { status: answer.map(|answer| answer.status().as_u16()) });
    }
}
