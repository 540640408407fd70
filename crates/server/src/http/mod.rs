//! HTTP: from bytes to the use cases of `app` and back.
//!
//! `serve` takes connections, every request passes `gate`, `routes` is the one table of routes, `resources` has a file of
//! handlers for each noun. A handler reads a `request` that `sandyard_api` validates, asks [`Yard`](crate::app::Yard), and answers with a
//! `response`. `proxy` carries requests to ports of sandboxes, [`mcp`] offers the API as tools. Nothing here knows the store.

mod audit_layer;
mod config;
mod counters;
mod gate;
mod limits;
pub mod mcp;
mod openapi;
mod openapi_shapes;
mod pages;
mod proxy;
mod request;
mod request_ids;
mod resources;
mod response;
mod routes;
mod rules;
mod serve;
mod service;
mod state;

pub use config::HttpConfig;
pub use limits::ServeLimits;
pub use openapi::document as openapi_document;
pub use serve::{serve_tcp, serve_unix};

use state::HttpState;
