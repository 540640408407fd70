//! From the API to the origins of sandboxes' ports: `/jobs/{id}/lab`, `/jobs/{id}/ports/{port}` and `/lab`.
//!
//! Each answers with a redirect that carries a ticket for the origin, or with a page that waits for the sandbox or says how it
//! ended. A page that waits carries the ticket for its next reload.

use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::IntoResponse;
use sandyard_api::{ApiError, ErrorBody, ErrorCode, ScheduleBody};

use super::schedule::new_job;
use crate::app::{
    AppError, FullJobStatus, JobAccess, JobFilter, JobKind, JobState, SandboxState, TicketTarget, WithOutput,
};
use crate::auth::origins::JobOrigin;
use crate::auth::visits::is_foreign;
use crate::http::HttpState;
use crate::http::proxy::notice::Notice;
use crate::http::proxy::{ENTER, LAB_PORT};
use crate::http::request::extract::{RouteCaller, RouteJob, port as read_port};
use crate::http::request::query::query;
use crate::http::response::failure::{HttpAnswer, HttpFailure};

/// A page about an ended job reloads before the ticket of its download runs out.
const ENDED_RELOAD_S: u32 = 20;
/// How soon a page that waits for its sandbox reloads.
const WAITING_RELOAD_S: u32 = 1;

/// JupyterLab of a job: a redirect to its own origin, or a page that waits for the sandbox or tells its end.
#[utoipa::path(
    get, path = "/jobs/{id}/lab", tag = "tools",
    params(
        ("id" = String, Path, description = "The job"),
        ("ticket" = Option<String>, Query, description = "From POST /jobs/{id}/tickets"),
    ),
    responses(
        (status = 200, description = "Waiting or ended", body = String, content_type = "text/html"),
        (status = 303, description = "To the origin, with a ticket for it"),
        (status = 404, body = ErrorBody),
    )
)]
pub(in crate::http) async fn lab(
    State(state): State<HttpState>,
    RouteJob(job): RouteJob,
    uri: Uri,
    headers: HeaderMap,
) -> HttpAnswer {
    query(&uri, &["ticket"])?;
    let (port, purpose) = (LAB_PORT, TicketTarget::Lab);
    let redirect = OriginRedirect { job: &job, port, purpose, route: "lab".to_owned(), target: "/lab" };
    redirect.answer(&state, &headers).await
}

/// A port of a job: a redirect to its own origin, or a page that waits for the sandbox or tells its end.
#[utoipa::path(
    get, path = "/jobs/{id}/ports/{port}", tag = "tools",
    params(
        ("id" = String, Path, description = "The job"),
        ("port" = u16, Path, description = "A port on the sandbox's loopback"),
        ("ticket" = Option<String>, Query, description = "From POST /jobs/{id}/tickets"),
    ),
    responses(
        (status = 200, description = "Waiting or ended", body = String, content_type = "text/html"),
        (status = 303, description = "To the origin, with a ticket for it"),
        (status = 404, body = ErrorBody),
    )
)]
pub(in crate::http) async fn port(
    State(state): State<HttpState>,
    RouteJob(job): RouteJob,
    uri: Uri,
    headers: HeaderMap,
) -> HttpAnswer {
    query(&uri, &["ticket"])?;
    let segment = uri.path().rsplit('/').next().unwrap_or_default();
    let port = read_port(segment)
        .ok_or_else(|| ApiError::new(ErrorCode::BadRequest, "a port is a number from 1 to 65535"))?;
    let purpose = TicketTarget::Port(port);
    let redirect = OriginRedirect { job: &job, port, purpose, route: format!("ports/{port}"), target: "/" };
    redirect.answer(&state, &headers).await
}

/// JupyterLab of the newest session; makes a session if there is none.
#[utoipa::path(
    get, path = "/lab", tag = "tools",
    responses((status = 303, description = "To the JupyterLab of a session"), (status = 401, body = ErrorBody))
)]
pub(in crate::http) async fn any(
    State(state): State<HttpState>,
    RouteCaller(caller): RouteCaller,
    headers: HeaderMap,
) -> HttpAnswer {
    if is_foreign(&headers) {
        return Ok(ask("").answer(&headers));
    }
    let states = vec![JobState::Running, JobState::Starting, JobState::Queued];
    let filter = JobFilter { states, kind: Some(JobKind::Session) };
    let newest = state.yard().list(&caller, &filter, 1, None).await?.jobs.pop();
    let id = match newest {
        Some(job) => job.id,
        None => {
            let session = serde_json::json!({"kind": "session", "name": "lab"});
            let job = new_job(ScheduleBody::from_json(&session)?)?;
            state.yard().schedule(&caller, job, None).await?.id
        }
    };
    redirect(&format!("/jobs/{id}/lab"))
}

/// The page that asks a person whom another site sent here.
fn ask(here: &str) -> Notice {
    let line = "Another page leads to this sandbox. Go on only if you meant to open it.";
    Notice::new(StatusCode::OK, "Open this sandbox?", line).link(here, "Open it")
}

/// The answer of a route that leads from the API to a port's origin.
struct OriginRedirect<'a> {
    job: &'a JobAccess,
    port: u16,
    /// The purpose of a ticket for this route.
    purpose: TicketTarget,
    /// This route, below the job.
    route: String,
    /// The path on the origin.
    target: &'static str,
}

impl OriginRedirect<'_> {
    async fn answer(&self, state: &HttpState, headers: &HeaderMap) -> HttpAnswer {
        let status = state.yard().status(self.job, WithOutput::Without).await?;
        if is_foreign(headers) {
            return Ok(ask(&self.own_url(state).await?).answer(headers));
        }
        if status.sandbox == SandboxState::Live {
            return self.redirect(state, headers).await;
        }
        let mut notice = self.notice(state, &status).await?;
        notice.status = StatusCode::OK;
        Ok(notice.answer(&as_page()))
    }

    async fn redirect(&self, state: &HttpState, headers: &HeaderMap) -> HttpAnswer {
        let origin = JobOrigin { job: self.job.id().clone(), port: self.port };
        let url = state.access().origin_url(&origin, headers).ok_or_else(no_origin)?;
        let ticket = state.yard().make_ticket(self.job, TicketTarget::Origin(self.port)).await?;
        redirect(&format!("{url}{ENTER}?ticket={ticket}&to={}", self.target))
    }

    /// This route again. With keys the ticket that led here is used up, so it carries another.
    async fn own_url(&self, state: &HttpState) -> Result<String, HttpFailure> {
        let url = format!("/jobs/{}/{}", self.job.id(), self.route);
        if state.access().is_open() {
            return Ok(url);
        }
        Ok(format!("{url}?ticket={}", state.yard().make_ticket(self.job, self.purpose).await?))
    }

    /// The page about a job without a live sandbox: it waits, or links to the files.
    async fn notice(&self, state: &HttpState, status: &FullJobStatus) -> Result<Notice, HttpFailure> {
        let own_url = self.own_url(state).await?;
        let notice = Notice::of_job(status);
        if !status.state.is_terminal() {
            return Ok(notice.again(WAITING_RELOAD_S, own_url));
        }
        let download = format!("/jobs/{}/download", self.job.id());
        if state.access().is_open() {
            return Ok(notice.link(download, "Download its files"));
        }
        let ticket = state.yard().make_ticket(self.job, TicketTarget::Download).await?;
        let link = format!("{download}?ticket={ticket}");
        Ok(notice.link(link, "Download its files").again(ENDED_RELOAD_S, own_url))
    }
}

/// These routes are for people, so every client gets the page.
fn as_page() -> HeaderMap {
    HeaderMap::from_iter([(axum::http::header::ACCEPT, HeaderValue::from_static("text/html"))])
}

fn no_origin() -> ApiError {
    ApiError::new(ErrorCode::NotAvailable, "a browser that came by this name has no way to a sandbox's own origin")
        .with_hint(
            "start the server with `--domain NAME`, where NAME and every name below it lead to this server, or come by localhost \
             (`ssh -L 8000:localhost:8000 …`)",
        )
}

fn redirect(location: &str) -> HttpAnswer {
    let location = HeaderValue::from_str(location).map_err(|error| AppError::internal(&error))?;
    Ok((StatusCode::SEE_OTHER, [(LOCATION, location)]).into_response())
}
