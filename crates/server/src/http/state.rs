//! The state that all handlers share.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use sandyard_api::SettingView;
use sandyard_sandbox::machine::Machine;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::gate::RequestIds;
use super::proxy::Lanes;
use super::request::body::BodyReader;
use super::resources::archive;
use super::response::failure::HttpFailure;
use super::serve::{HttpCounters, ServeLimits};
use super::{HttpConfig, openapi};
use crate::app::{AppError, JobAccess, Yard};
use crate::auth::AccessRules;

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
    /// The OpenAPI document, made when it is first asked for.
    openapi: OnceLock<Bytes>,
}

impl HttpState {
    pub(super) fn new(config: HttpConfig) -> Self {
        Self(Arc::new(HttpParts {
            bodies: BodyReader::new(config.limits.body_bytes),
            openapi: OnceLock::new(),
            config,
            request_ids: RequestIds::new(),
            counters: HttpCounters::default(),
            archives: Semaphore::new(archive::MAX_ARCHIVES_AT_ONCE),
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
        let make = || serde_json::to_vec(&openapi::document(self.version())).unwrap_or_default().into();
        self.0.openapi.get_or_init(make).clone()
    }

    pub(super) fn counters(&self) -> &HttpCounters {
        &self.0.counters
    }
}
