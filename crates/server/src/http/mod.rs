//! HTTP: from bytes to the use cases of `app` and back.
//!
//! `serve` takes connections, every request passes `gate`, `routes` is the one table of routes, `resources` has a file of
//! handlers for each noun. A handler reads a `request` that `sandyard_api` validates, asks [`Yard`], and answers with a
//! `response`. `proxy` carries requests to ports of sandboxes, [`mcp`] offers the API as tools. Nothing here knows the store.

mod audit_layer;
mod gate;
pub mod mcp;
mod openapi;
mod openapi_shapes;
mod pages;
mod proxy;
mod request;
mod resources;
mod response;
mod routes;
mod serve;
mod state;

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use sandyard_api::{ApiError, ErrorCode, SettingView};
use tokio_util::sync::CancellationToken;

pub use openapi::document as openapi_document;
pub use serve::{ServeLimits, serve_tcp, serve_unix};

use crate::app::Yard;
use crate::auth::AccessRules;
use response::failure::HttpFailure;
use state::HttpState;

/// The HTTP layer of a server.
pub struct HttpConfig {
    /// The yard that is served.
    pub yard: Yard,
    /// Rules for access to the service.
    pub access: AccessRules,
    /// Bounds on connections and times.
    pub limits: ServeLimits,
    /// The version that `/version` reports.
    pub version: String,
    /// Settings in effect, which `/settings` reports. None of them is a secret.
    pub settings: Vec<SettingView>,
    /// Ends streams and waits when the server stops.
    pub shutdown: CancellationToken,
}

/// Builds the service: all routes of the table behind the gate.
fn service(state: HttpState) -> gate::Gate {
    let routes = routes::table::routes();
    let router = routes.into_iter().fold(Router::new(), |router, route| route.add_to(router, &state));
    let api = router
        .fallback(gate::no_route)
        .method_not_allowed_fallback(gate::no_method)
        .with_state(state.clone());
    // Calls of MCP's tools go to the routes behind the gate: `/mcp` itself has passed it.
    let mcp = Arc::new(mcp::McpService::new(&state, api.clone()));
    gate::Gate::new(state, api.layer(Extension(mcp)))
}

async fn no_route() -> Response {
    let error = ApiError::new(ErrorCode::NotFound, "there is no such route");
    HttpFailure::from(error.with_hint("GET /docs shows them all")).into_response()
}
