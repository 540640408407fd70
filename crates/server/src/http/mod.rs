//! HTTP: one file for each resource, from bytes to the use cases of `app` and back.
//!
//! `serve` takes connections, `gate` is passed by every request, [`routes`] is the one table of routes. A handler reads what
//! `sandyard_api` validates, asks [`Yard`], and answers with a view or a `failure`. Nothing here knows the store.

mod archive;
mod audit;
mod body;
mod code;
mod content;
mod counters;
mod desktop;
mod download;
mod events;
mod failure;
mod files;
mod files_change;
mod gate;
mod gui;
mod idle_io;
mod jobs;
mod kernels;
mod lab;
mod logs;
pub mod mcp;
mod openapi;
mod pages;
mod parts;
mod proxy;
mod ranges;
mod schedule;
mod serve;
mod shell;
mod shell_output;
mod status;
mod terminal;
mod tickets;
mod unbuilt;
mod views;
mod witness;
mod yard;

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any, delete, get, post};
use sandyard_api::{ApiError, ErrorCode};
use sandyard_sandbox::machine::Machine;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub use openapi::document as openapi_document;
pub use serve::{Connections, ServeLimits, serve};

use crate::app::{SandboxState, WithOutput, Yard};
use crate::auth::Access;
use crate::job::JobId;
use counters::Counters;
use failure::Failure;
use gate::RequestIds;
use proxy::Lanes;

/// Keeper dials again within a second of losing its link; a busy machine may take a few.
const RELINK_PATIENCE: Duration = Duration::from_secs(5);
/// How often a machine between two links is looked for.
const RELINK_CHECK: Duration = Duration::from_millis(20);

/// What the HTTP layer of a server consists of.
pub struct HttpConfig {
    /// The yard that is served.
    pub yard: Yard,
    /// Who may use it.
    pub access: Access,
    /// Bounds on connections and times.
    pub limits: ServeLimits,
    /// The version to tell.
    pub version: String,
    /// Ends streams and waits when the server stops.
    pub shutdown: CancellationToken,
}

/// Shared by all handlers.
#[derive(Clone)]
pub(crate) struct HttpState(Arc<Shared>);

struct Shared {
    config: HttpConfig,
    request_ids: RequestIds,
    counters: Counters,
    archives: Semaphore,
    lanes: Lanes,
}

impl HttpState {
    pub(crate) fn new(config: HttpConfig) -> Self {
        let archives = Semaphore::new(archive::AT_ONCE);
        Self(Arc::new(Shared {
            config,
            request_ids: RequestIds::new(),
            counters: Counters::default(),
            archives,
            lanes: Lanes::default(),
        }))
    }

    fn yard(&self) -> &Yard {
        &self.0.config.yard
    }

    /// The live machine of a job; an unknown job is told from one without a machine. A live one that is between two links,
    /// after a restart of either side, is waited for.
    async fn machine(&self, id: &JobId) -> Result<Arc<Machine>, Failure> {
        let deadline = Instant::now() + RELINK_PATIENCE;
        loop {
            let refusal = match self.yard().machine(id) {
                Ok(machine) => return Ok(machine),
                Err(refusal) => refusal,
            };
            let status = self.yard().status(id, WithOutput::Without).await?;
            if status.sandbox != SandboxState::Live || Instant::now() >= deadline {
                return Err(refusal.into());
            }
            tokio::time::sleep(RELINK_CHECK).await;
        }
    }

    fn access(&self) -> &Access {
        &self.0.config.access
    }

    fn limits(&self) -> &ServeLimits {
        &self.0.config.limits
    }

    fn version(&self) -> &str {
        &self.0.config.version
    }

    fn shutdown(&self) -> &CancellationToken {
        &self.0.config.shutdown
    }

    fn request_ids(&self) -> &RequestIds {
        &self.0.request_ids
    }

    fn archives(&self) -> &Semaphore {
        &self.0.archives
    }

    fn lanes(&self) -> &Lanes {
        &self.0.lanes
    }

    fn counters(&self) -> &Counters {
        &self.0.counters
    }
}

/// Every route, by the path that the OpenAPI document gives it.
fn routes() -> Vec<(&'static str, MethodRouter<HttpState>)> {
    let mut routes = vec![
        ("/", get(pages::home)),
        ("/docs", get(pages::docs)),
        ("/assets/{name}", get(pages::asset)),
        ("/openapi.json", get(pages::openapi)),
        ("/healthz", get(yard::healthz)),
        ("/readyz", get(yard::readyz)),
        ("/metrics", get(yard::metrics)),
        ("/version", get(yard::version)),
        ("/drivers", get(yard::drivers)),
        ("/schedule", post(schedule::schedule)),
        ("/submit", post(schedule::submit)),
        ("/status/{id}", get(status::status)),
        ("/jobs", get(jobs::list)),
        ("/jobs/{id}", get(status::job).delete(jobs::remove)),
        ("/jobs/{id}/cancel", post(jobs::cancel)),
        ("/jobs/{id}/reply", post(jobs::reply)),
        ("/jobs/{id}/tickets", post(tickets::make)),
        ("/jobs/{id}/events", get(events::follow)),
        ("/jobs/{id}/logs", get(logs::read)),
        ("/jobs/{id}/download", get(download::read)),
        ("/jobs/{id}/audit", get(audit::read)),
        ("/jobs/{id}/shell", post(shell::run).get(terminal::open)),
        ("/jobs/{id}/gui", post(gui::act)),
        ("/jobs/{id}/screenshot.png", get(gui::screenshot)),
        ("/jobs/{id}/desktop", get(desktop::with_slash)),
        ("/jobs/{id}/desktop/", get(desktop::page)),
        ("/jobs/{id}/desktop/socket", get(desktop::socket)),
        ("/lab", get(lab::any)),
        ("/jobs/{id}/lab", get(lab::lab)),
        ("/jobs/{id}/ports/{port}", get(lab::port)),
        ("/jobs/{id}/proxy/{port}", any(proxy::program::connection)),
        ("/jobs/{id}/proxy/{port}/", any(proxy::program::root)),
        ("/jobs/{id}/proxy/{port}/{*path}", any(proxy::program::pass_on)),
        ("/jobs/{id}/code", post(code::run)),
        ("/jobs/{id}/code/{execution}", get(code::attach)),
        ("/jobs/{id}/kernels", get(kernels::list).post(kernels::start)),
        ("/jobs/{id}/kernels/{kernel}", get(kernels::show).merge(delete(kernels::stop))),
        ("/jobs/{id}/kernels/{kernel}/interrupt", post(kernels::interrupt)),
        ("/jobs/{id}/kernels/{kernel}/restart", post(kernels::restart)),
        ("/jobs/{id}/files", files::root_routes()),
        ("/jobs/{id}/files/", files::root_routes()),
        (
            "/jobs/{id}/files/{*path}",
            get(files::read)
                .put(files_change::write)
                .patch(files_change::change)
                .merge(delete(files_change::remove)),
        ),
    ];
    routes.extend(unbuilt::PATHS.iter().map(|path| (*path, any(unbuilt::refuse))));
    routes
}

/// The whole service.
pub(crate) fn router(state: HttpState) -> Router {
    let mut router = Router::new();
    for (path, handlers) in routes() {
        router = router.route(path, handlers);
    }
    // Only around routes: what is no route does nothing.
    router = router.route_layer(axum::middleware::from_fn_with_state(state.clone(), witness::record));
    let api = router
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(DefaultBodyLimit::disable())
        .with_state(state.clone());
    let mcp = mcp::service(&state, api.clone());
    api.route_service("/mcp", mcp).layer(axum::middleware::from_fn_with_state(state, gate::pass))
}

async fn no_route() -> Response {
    let error = ApiError::new(ErrorCode::NotFound, "there is no such route");
    Failure::from(error.with_hint("GET /docs shows them all")).into_response()
}

async fn no_method() -> Response {
    let error = ApiError::new(ErrorCode::MethodNotAllowed, "this route does not take this method");
    Failure::from(error.with_hint("the Allow header names those it takes")).into_response()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_route_is_documented_and_nothing_else() {
        let document = serde_json::to_value(openapi_document("0")).unwrap();
        let documented: BTreeSet<String> = document["paths"].as_object().unwrap().keys().cloned().collect();
        let aliases = ["/jobs/{id}/desktop", "/jobs/{id}/files", "/assets/{name}"];
        let routed: BTreeSet<String> = routes()
            .into_iter()
            .filter(|(path, _)| !aliases.contains(path))
            .map(|(path, _)| path.replace("{*", "{"))
            .chain(["/mcp".to_owned()])
            .collect();
        assert_eq!(documented, routed);
    }
}
