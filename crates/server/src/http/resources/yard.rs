//! The yard itself: health, version, settings, drivers, metrics.

use axum::Json;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use sandyard_api::{AvailabilityView, ErrorBody, HealthView, SettingsView, VersionView};

use crate::app::{ImageFlavour, ImageState};
use crate::http::HttpState;
use crate::http::request::extract::RouteCaller;
use crate::http::response::failure::HttpAnswer;
use crate::http::response::views;

/// Whether the process answers.
#[utoipa::path(get, path = "/healthz", tag = "yard", responses((status = 200, body = HealthView)))]
pub(in crate::http) async fn healthz() -> Json<HealthView> {
    Json(HealthView { status: "ok".to_owned() })
}

/// Whether work can be accepted.
#[utoipa::path(
    get, path = "/readyz", tag = "yard",
    responses((status = 200, body = HealthView), (status = 503, description = "Not now", body = ErrorBody))
)]
pub(in crate::http) async fn readyz(State(state): State<HttpState>) -> HttpAnswer {
    state.yard().ready().await?;
    Ok(Json(HealthView { status: "ok".to_owned() }).into_response())
}

/// Counters as Prometheus reads them.
#[utoipa::path(
    get, path = "/metrics", tag = "yard",
    responses((status = 200, description = "Prometheus text", body = String, content_type = "text/plain"))
)]
pub(in crate::http) async fn metrics(
    State(state): State<HttpState>,
    RouteCaller(caller): RouteCaller,
) -> HttpAnswer {
    let mut text = state.yard().metrics(&caller)?;
    state.counters().render(&mut text);
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}

/// What runs here.
#[utoipa::path(get, path = "/version", tag = "yard", responses((status = 200, body = VersionView)))]
pub(in crate::http) async fn version(State(state): State<HttpState>) -> Json<VersionView> {
    let audit_key = state.yard().audit_key().to_string();
    Json(VersionView { name: "sandyard".to_owned(), version: state.version().to_owned(), audit_key })
}

/// Settings in effect with their sources, and the models that tasks may use.
#[utoipa::path(get, path = "/settings", tag = "yard", responses((status = 200, body = SettingsView)))]
pub(in crate::http) async fn settings(
    State(state): State<HttpState>,
    RouteCaller(caller): RouteCaller,
) -> HttpAnswer {
    let models = state.yard().models(&caller)?;
    Ok(Json(SettingsView { settings: state.settings().to_vec(), models }).into_response())
}

/// What can run here, and why not.
#[utoipa::path(get, path = "/drivers", tag = "yard", responses((status = 200, body = AvailabilityView)))]
pub(in crate::http) async fn drivers(
    State(state): State<HttpState>,
    RouteCaller(caller): RouteCaller,
) -> HttpAnswer {
    let drivers = state.yard().drivers(&caller).await?.into_iter().map(views::driver).collect();
    let mut images = Vec::new();
    for flavour in ImageFlavour::ALL {
        let image = state.yard().image(&caller, flavour)?;
        // Nobody waits for an image that is only built on request.
        if flavour != ImageFlavour::Dev || !matches!(image, ImageState::Missing { .. }) {
            images.push(views::image(flavour, image));
        }
    }
    Ok(Json(AvailabilityView { drivers, images }).into_response())
}
