//! The service of a listener: every route of the table behind the gate, and answers to requests that no route takes.

use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::{Extension, Router};
use sandyard_api::{ApiError, ErrorCode};

use super::gate::{Gate, admit, check};
use super::mcp::McpService;
use super::response::failure::HttpAnswer;
use super::response::unknown_route::unknown_route;
use super::routes::table;
use super::state::HttpState;

/// Builds the service: all routes of the table behind the gate.
pub(super) fn service(state: HttpState) -> Gate {
    let routes = table::routes();
    let router = routes.into_iter().fold(Router::new(), |router, route| route.add_to(router, &state));
    let api = router.fallback(no_route).method_not_allowed_fallback(no_method).with_state(state.clone());
    // Calls of MCP's tools go to the routes behind the gate: `/mcp` itself has passed it.
    let mcp = Arc::new(McpService::new(&state, api.clone()));
    Gate::new(state, api.layer(Extension(mcp)))
}

/// Answers a path that no route has. Without a key it is not even said that there is none.
async fn no_route(State(state): State<HttpState>, mut request: Request) -> HttpAnswer {
    admit(&state, None, &mut request)?;
    Ok(unknown_route().await)
}

/// Answers a method that a path does not take: to everybody on a public path, else to callers only.
async fn no_method(State(state): State<HttpState>, mut request: Request) -> HttpAnswer {
    let path = request.extensions().get::<MatchedPath>().cloned();
    if path.is_some_and(|path| table::is_public(path.as_str())) {
        check(&state, &request)?;
    } else {
        admit(&state, None, &mut request)?;
    }
    let error = ApiError::new(ErrorCode::MethodNotAllowed, "this route does not take this method");
    Err(error.with_hint("the Allow header names those it takes").into())
}
