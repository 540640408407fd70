//! The state that all handlers share.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
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
use crate::app::{AppError, JobAccess, JobState, SandboxState, WithOutput, Yard};
use crate::auth::AccessRules;

/// Keeper dials again within a second of losing its link; a busy machine may take a few.
const RELINK_TIMEOUT: Duration = Duration::from_secs(5);
/// Delay between two looks for a machine that is between two links.
const RELINK_CHECK_DELAY: Duration = Duration::from_millis(20);

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

    /// The live machine of a job. Waits for a machine that is between two links, after a restart of either side; a job
    /// without a live sandbox is a conflict at once.
    pub(super) async fn machine(&self, job: &JobAccess) -> Result<Arc<Machine>, HttpFailure> {
        let deadline = Instant::now() + RELINK_TIMEOUT;
        loop {
            let refusal = match self.yard().machine(job) {
                Ok(machine) => return Ok(machine),
                Err(refusal) => refusal,
            };
            let status = self.yard().status(job, WithOutput::Without).await?;
            // After a restart the owner exports over a link that tools never get.
            if status.state == JobState::Finishing {
                return Err(AppError::finishing().into());
            }
            if status.sandbox != SandboxState::Live || Instant::now() >= deadline {
                return Err(refusal.into());
            }
            tokio::time::sleep(RELINK_CHECK_DELAY).await;
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
