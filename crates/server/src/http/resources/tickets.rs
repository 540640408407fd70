//! `POST /jobs/{id}/tickets`: links for clients that can't send a header.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use sandyard_api::{ErrorBody, TicketPurpose, TicketRequest, TicketView, Timestamp};

use crate::app;
use crate::http::HttpState;
use crate::http::request::body::RequestBody;
use crate::http::request::extract::RouteJob;
use crate::http::response::failure::HttpAnswer;

/// Lifetime of a ticket in seconds, as the contract states it.
const TICKET_LIFETIME: Duration = Duration::from_secs(30);

/// A link that works once, within 30 seconds, without a key.
#[utoipa::path(
    post, path = "/jobs/{id}/tickets", tag = "jobs",
    params(("id" = String, Path, description = "The job")),
    request_body = TicketRequest,
    responses(
        (status = 201, description = "The link", body = TicketView),
        (status = 404, body = ErrorBody),
        (status = 422, description = "Not a purpose", body = ErrorBody),
    )
)]
pub(in crate::http) async fn make(
    State(state): State<HttpState>,
    RouteJob(job): RouteJob,
    body: RequestBody,
) -> HttpAnswer {
    let (request, _room) = body.json(TicketRequest::from_json).await?;
    let (purpose, path) = match request.purpose {
        TicketPurpose::Lab => (app::TicketTarget::Lab, "lab".to_owned()),
        TicketPurpose::Desktop => (app::TicketTarget::Desktop, "desktop/".to_owned()),
        TicketPurpose::Pty => (app::TicketTarget::Pty, "shell".to_owned()),
        TicketPurpose::Download => (app::TicketTarget::Download, "download".to_owned()),
        TicketPurpose::Explained => (app::TicketTarget::Explanation, "explained".to_owned()),
        TicketPurpose::Port(port) => (app::TicketTarget::Port(port), format!("ports/{port}")),
    };
    let ticket = state.yard().make_ticket(&job, purpose).await?;
    let expires = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default() + TICKET_LIFETIME;
    let view = TicketView {
        url: format!("/jobs/{}/{path}?ticket={ticket}", job.id()),
        expires_at: Timestamp::from_unix_ms(i64::try_from(expires.as_millis()).unwrap_or(i64::MAX)),
    };
    Ok((StatusCode::CREATED, Json(view)).into_response())
}
