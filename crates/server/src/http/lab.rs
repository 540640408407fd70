//! Ways from the API to the origins of sandboxes' ports: `/jobs/{id}/lab`, `/jobs/{id}/ports/{port}` and `/lab`.
//!
//! Each answers always: with a redirect that carries a ticket for the origin, or with a page that waits for the sandbox or says
//! how it ended. Pages that wait carry the ticket for their next look.

use axum::extract::State;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::IntoResponse;
use sandyard_api::{ApiError, ErrorBody, ErrorCode, ScheduleBody};

use super::HttpState;
use super::failure::{Answer, Failure};
use super::parts::{self, By, Job, query};
use super::proxy::ENTER;
use super::proxy::notice::Notice;
use super::schedule::new_job;
use crate::app::{
    AppError, JobFilter, JobKind, JobState, JobStatus, SandboxState, TicketPurpose, WithOutput,
};
use crate::auth::origins::JobOrigin;
use crate::auth::visits::is_foreign;
use crate::job::JobId;

/// Where keeper starts JupyterLab on first use.
pub(super) const PORT: u16 = 8888;
/// A page about an ended job looks again before the ticket of its download runs out.
const ENDED_LOOK_S: u32 = 20;

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
pub(super) async fn lab(
    State(state): State<HttpState>,
    Job(id): Job,
    uri: Uri,
    headers: HeaderMap,
) -> Answer {
    query(&uri, &["ticket"])?;
    let way = Way { id: &id, port: PORT, purpose: TicketPurpose::Lab, here: "lab".to_owned(), to: "/lab" };
    way.lead(&state, &headers).await
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
pub(super) async fn port(
    State(state): State<HttpState>,
    Job(id): Job,
    uri: Uri,
    headers: HeaderMap,
) -> Answer {
    query(&uri, &["ticket"])?;
    let segment = uri.path().rsplit('/').next().unwrap_or_default();
    let port = parts::port(segment)
        .ok_or_else(|| ApiError::new(ErrorCode::BadRequest, "a port is a number from 1 to 65535"))?;
    let purpose = TicketPurpose::Port(port);
    Way { id: &id, port, purpose, here: format!("ports/{port}"), to: "/" }.lead(&state, &headers).await
}

/// JupyterLab of the newest session; makes a session if there is none.
#[utoipa::path(
    get, path = "/lab", tag = "tools",
    responses((status = 303, description = "To the JupyterLab of a session"), (status = 401, body = ErrorBody))
)]
pub(super) async fn any(State(state): State<HttpState>, By(caller): By, headers: HeaderMap) -> Answer {
    if is_foreign(&headers) {
        return Ok(ask("").answer(&headers));
    }
    let states = vec![JobState::Running, JobState::Starting, JobState::Queued];
    let filter = JobFilter { states, kind: Some(JobKind::Session) };
    let newest = state.yard().list(&filter, 1, None).await?.jobs.pop();
    let id = match newest {
        Some(job) => job.id,
        None => {
            let session = serde_json::json!({"kind": "session", "name": "lab"});
            let job = new_job(ScheduleBody::from_json(&session)?)?;
            state.yard().by(&caller).schedule(job, None).await?.id
        }
    };
    redirect(&format!("/jobs/{id}/lab"))
}

/// The page that asks a person whom another site led here.
fn ask(here: &str) -> Notice {
    let line = "Another page leads to this sandbox. Go on only if you meant to open it.";
    Notice::new(StatusCode::OK, "Open this sandbox?", line).link(here, "Open it")
}

/// From a route of the API to a port's origin.
struct Way<'a> {
    id: &'a JobId,
    port: u16,
    /// Of a ticket for this route.
    purpose: TicketPurpose,
    /// This route, below the job.
    here: String,
    /// Where to go on the origin.
    to: &'static str,
}

impl Way<'_> {
    async fn lead(&self, state: &HttpState, headers: &HeaderMap) -> Answer {
        let job = state.yard().status(self.id, WithOutput::Without).await?;
        if is_foreign(headers) {
            return Ok(ask(&self.here(state).await?).answer(headers));
        }
        if job.sandbox == SandboxState::Live {
            return self.go(state, headers).await;
        }
        let mut notice = self.told(state, &job).await?;
        notice.status = StatusCode::OK;
        Ok(notice.answer(&as_page()))
    }

    async fn go(&self, state: &HttpState, headers: &HeaderMap) -> Answer {
        let origin = JobOrigin { job: self.id.clone(), port: self.port };
        let url = state.access().origin_url(&origin, headers).ok_or_else(no_origin)?;
        let ticket = state.yard().make_ticket(self.id, TicketPurpose::Origin(self.port)).await?;
        redirect(&format!("{url}{ENTER}?ticket={ticket}&to={}", self.to))
    }

    /// This route again: with a key the ticket that led here is used up, so it carries another.
    async fn here(&self, state: &HttpState) -> Result<String, Failure> {
        let here = format!("/jobs/{}/{}", self.id, self.here);
        if state.access().is_open() {
            return Ok(here);
        }
        Ok(format!("{here}?ticket={}", state.yard().make_ticket(self.id, self.purpose).await?))
    }

    async fn told(&self, state: &HttpState, job: &JobStatus) -> Result<Notice, Failure> {
        let (id, locked) = (self.id, !state.access().is_open());
        let here = self.here(state).await?;
        let notice = Notice::of_job(job);
        if !job.state.is_terminal() {
            return Ok(notice.again(1, here));
        }
        let download = format!("/jobs/{id}/download");
        if !locked {
            return Ok(notice.link(download, "Download its files"));
        }
        let ticket = state.yard().make_ticket(id, TicketPurpose::Download).await?;
        Ok(notice.link(format!("{download}?ticket={ticket}"), "Download its files").again(ENDED_LOOK_S, here))
    }
}

/// These routes are for people; whoever asks gets the page.
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

fn redirect(location: &str) -> Answer {
    let location = HeaderValue::from_str(location).map_err(|error| AppError::internal(&error))?;
    Ok((StatusCode::SEE_OTHER, [(LOCATION, location)]).into_response())
}
