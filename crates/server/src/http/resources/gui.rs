//! `POST /jobs/{id}/gui` and `GET /jobs/{id}/screenshot.png`: actions on a desktop and pictures of it.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sandyard_api::{
    ApiError, ErrorBody, ErrorCode, GuiAction, GuiRequest, GuiResultView, GuiView, ImageBytesView, WindowView,
};
use sandyard_protocol as guest;

use crate::app::{SandboxState, WithOutput};
use crate::http::HttpState;
use crate::http::request::body::RequestBody;
use crate::http::request::extract::RouteJob;
use crate::http::request::query::query;
use crate::http::response::failure::{HttpAnswer, HttpFailure};

/// Most bytes of pictures in one answer, before they are encoded.
const MAX_PICTURE_BYTES: usize = 64 * 1024 * 1024;

/// Acts on the desktop, which starts with its first use. Refused with 409 while a person controls it.
#[utoipa::path(
    post, path = "/jobs/{id}/gui", tag = "tools",
    params(("id" = String, Path, description = "The job")),
    request_body = GuiRequest,
    responses(
        (status = 200, description = "A result for each action that was tried", body = GuiView),
        (status = 404, body = ErrorBody),
        (status = 409, description = "The job has no live sandbox, or a person controls the desktop", body = ErrorBody),
        (status = 422, body = ErrorBody),
    )
)]
pub(in crate::http) async fn act(
    State(state): State<HttpState>,
    RouteJob(job): RouteJob,
    body: RequestBody,
) -> HttpAnswer {
    let (request, _room) = body.json(GuiRequest::from_json).await?;
    let machine = state.machine(&job).await?;
    let names: Vec<&'static str> = request.actions.iter().map(GuiAction::name).collect();
    let wait = Duration::from_secs(request.wait_s.unwrap_or(0));
    let mut answers = machine.gui(request.actions, wait).await?;
    let (mut results, mut pictures) = (Vec::new(), 0);
    while let Some((result, png)) = answers.next().await? {
        pictures += png.as_ref().map_or(0, Vec::len);
        if pictures > MAX_PICTURE_BYTES {
            return Err(too_many_pictures());
        }
        results.push(view(names.get(results.len()).copied().unwrap_or_default(), result, png));
    }
    let completed = results.len() == names.len() && results.iter().all(|result| result.error.is_none());
    Ok(Json(GuiView { completed, results }).into_response())
}

fn too_many_pictures() -> HttpFailure {
    ApiError::new(ErrorCode::LimitReached, "the pictures of this list are too large for one answer")
        .with_hint("take fewer screenshots at once")
        .into()
}

/// The screen now, the last picture of an ended job's desktop, or one that a task looked at.
#[utoipa::path(
    get, path = "/jobs/{id}/screenshot.png", tag = "tools",
    params(
        ("id" = String, Path, description = "The job"),
        ("window" = Option<u32>, Query, description = "One window, as the action `windows` names it"),
        ("entry" = Option<u64>, Query, description = "With `picture`: what a task saw, as a `screenshot` event names it"),
        ("picture" = Option<u64>, Query, description = "Which part of the entry"),
    ),
    responses(
        (status = 200, description = "The picture", body = Vec<u8>, content_type = "image/png"),
        (status = 404, description = "No such job, or it had no desktop", body = ErrorBody),
        (status = 409, description = "The job has no sandbox yet", body = ErrorBody),
    )
)]
pub(in crate::http) async fn screenshot(
    State(state): State<HttpState>,
    RouteJob(job): RouteJob,
    uri: Uri,
) -> HttpAnswer {
    let asked = query(&uri, &["window", "entry", "picture", "wait"])?;
    let window = asked.whole("window", 0..=u64::from(u32::MAX))?;
    if let Some(entry) = asked.whole("entry", 1..=u64::MAX)? {
        let picture = asked.whole("picture", 0..=u64::MAX)?.unwrap_or(0);
        return Ok(picture_answer(state.yard().seen_picture(&job, entry, picture).await?));
    }
    let status = state.yard().status(&job, WithOutput::Without).await?;
    let png = if status.sandbox != SandboxState::Live && status.state.is_terminal() {
        state.yard().last_screenshot(&job).await?
    } else {
        let window = window.and_then(|window| u32::try_from(window).ok());
        state.machine(&job).await?.screenshot(window).await?
    };
    Ok(picture_answer(png))
}

fn picture_answer(png: Vec<u8>) -> Response {
    ([(CONTENT_TYPE, "image/png")], png).into_response()
}

fn view(name: &str, result: guest::GuiResult, png: Option<Vec<u8>>) -> GuiResultView {
    let window = |window: guest::WindowInfo| WindowView {
        id: window.id,
        title: window.title,
        x: window.x,
        y: window.y,
        width: window.width,
        height: window.height,
        active: window.active,
    };
    GuiResultView {
        action: name.to_owned(),
        error: result
            .error
            .map(|error| guest::GuestError::new(guest::GuestErrorCode::Internal, error).message),
        output: result.output,
        stable: result.stable,
        windows: result.windows.map(|windows| windows.into_iter().map(window).collect()),
        image: png.map(|png| ImageBytesView {
            mime: "image/png".to_owned(),
            width: result.width.unwrap_or_default(),
            height: result.height.unwrap_or_default(),
            base64: STANDARD.encode(png),
        }),
    }
}
