//! The yard itself: health, version, drivers, metrics.

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use sandyard_api::{AvailabilityView, ErrorBody, HealthView, VersionView};

use super::HttpState;
use super::failure::Answer;
use super::views;
use crate::app::ImageFlavour;

/// Whether the process answers.
#[utoipa::path(get, path = "/healthz", tag = "yard", responses((status = 200, body = HealthView)))]
pub(super) async fn healthz() -> Json<HealthView> {
    Json(HealthView { status: "ok".to_owned() })
}

/// Whether work can be accepted.
#[utoipa::path(
    get, path = "/readyz", tag = "yard",
    responses((status = 200, body = HealthView), (status = 503, description = "Not now", body = ErrorBody))
)]
pub(super) async fn readyz(State(state): State<HttpState>) -> Answer {
    state.yard().ready().await?;
    Ok(Json(HealthView { status: "ok".to_owned() }).into_response())
}

/// Counters as Prometheus reads them.
#[utoipa::path(
    get, path = "/metrics", tag = "yard",
    responses((status = 200, description = "Prometheus text", body = String, content_type = "text/plain"))
)]
pub(super) async fn metrics(State(state): State<HttpState>) -> impl IntoResponse {
    let mut text = state.yard().metrics();
    state.counters().render(&mut text);
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text)
}

/// What runs here.
#[utoipa::path(get, path = "/version", tag = "yard", responses((status = 200, body = VersionView)))]
pub(super) async fn version(State(state): State<HttpState>) -> Json<VersionView> {
    let audit_key = state.yard().audit_key().to_string();
    Json(VersionView { name: "sandyard".to_owned(), version: state.version().to_owned(), audit_key })
}

/// What can run here, and why not.
#[utoipa::path(get, path = "/drivers", tag = "yard", responses((status = 200, body = AvailabilityView)))]
pub(super) async fn drivers(State(state): State<HttpState>) -> Json<AvailabilityView> {
    let drivers = state.yard().drivers().await.into_iter().map(views::driver).collect();
    let images = [ImageFlavour::Base, ImageFlavour::Full];
    let images =
        images.into_iter().map(|flavour| views::image(flavour, state.yard().image(flavour))).collect();
    Json(AvailabilityView { drivers, images })
}
