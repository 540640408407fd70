//! The state that all handlers share.

use std::sync::{Arc, OnceLock};

use axum::extract::FromRef;
use bytes::Bytes;
use sandyard_api::SettingView;
use sandyard_sandbox::machine::Machine;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::config::HttpConfig;
use super::counters::HttpCounters;
use super::limits::ServeLimits;
use super::proxy::lanes::Lanes;
use super::request::body::BodyReader;
use super::request_ids::RequestIds;
use super::response::failure::HttpFailure;
use crate::app::{AppError, JobAccess, Yard};
use crate::auth::AccessRules;

/// Archives made at the same time: each takes a processor and space on the host's disk.
const MAX_ARCHIVES_AT_ONCE: usize = 2;

/// Shared by all handlers; clones are handles to the same state.
#[derive(Clone)]
pub(crate) struct HttpState(Arc<HttpParts>);

struct HttpParts {
    config: HttpConfig,
    request_ids: RequestIds,
    counters: HttpCounters,
    archives: Semaphore,
    lanes: Lanes,
    bodies: Arc<BodyReader>,
    /// Makes the OpenAPI document for a version of the program.
    document: fn(&str) -> Value,
    /// The document as JSON, made when it is first asked for.
    openapi: OnceLock<Bytes>,
}

impl HttpState {
    /// The state of a listener. The document is of routes, which are above this module, so its maker is passed in.
    pub(super) fn new(config: HttpConfig, document: fn(&str) -> Value) -> Self {
        Self(Arc::new(HttpParts {
            bodies: BodyReader::new(config.limits.body_bytes),
            document,
            openapi: OnceLock::new(),
            config,
            request_ids: RequestIds::new(),
            counters: HttpCounters::default(),
            archives: Semaphore::new(MAX_ARCHIVES_AT_ONCE),
            lanes: Lanes::default(),
        }))
    }

    pub(super) fn yard(&self) -> &Yard {
        &self.0.config.yard
    }

    /// The live machine of a job, as [`Yard::machine`] waits for it.
    pub(super) async fn machine(&self, job: &JobAccess) -> Result<Arc<Machine>, HttpFailure> {
        // Waiting must not delay the stop of the server. Both branches only wait, so cancelling one loses nothing.
        tokio::select! {
            machine = self.yard().machine(job) => Ok(machine?),
            () = self.shutdown().cancelled() => Err(AppError::stopping().into()),
        }
    }

    pub(super) fn access(&self) -> &AccessRules {
        &self.0.config.access
    }

    pub(super) fn limits(&self) -> &ServeLimits {
        &self.0.config.limits
    }

    pub(super) fn version(&self) -> &str {
        &self.0.config.version
    }

    pub(super) fn settings(&self) -> &[SettingView] {
        &self.0.config.settings
    }

    pub(super) fn shutdown(&self) -> &CancellationToken {
        &self.0.config.shutdown
    }

    pub(super) fn request_ids(&self) -> &RequestIds {
        &self.0.request_ids
    }

    pub(super) fn archives(&self) -> &Semaphore {
        &self.0.archives
    }

    pub(super) fn lanes(&self) -> &Lanes {
        &self.0.lanes
    }

    pub(super) fn bodies(&self) -> &Arc<BodyReader> {
        &self.0.bodies
    }

    /// The OpenAPI document as JSON. It is the same for every request, and takes milliseconds to make.
    pub(super) fn openapi(&self) -> Bytes {
        let make = || serde_json::to_vec(&(self.0.document)(self.version())).unwrap_or_default().into();
        self.0.openapi.get_or_init(make).clone()
    }

    pub(super) fn counters(&self) -> &HttpCounters {
        &self.0.counters
    }
}

impl FromRef<HttpState> for Arc<BodyReader> {
    fn from_ref(state: &HttpState) -> Self {
        Arc::clone(state.bodies())
    }
}
