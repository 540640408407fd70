//! `PUT`, `PATCH` and `DELETE /jobs/{id}/files/{path}`.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::IF_NONE_MATCH;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::IntoResponse;
use bytes::Bytes;
use http_body_util::BodyExt;
use sandyard_api::{ApiError, ErrorBody, ErrorCode, FileChange, FileChangeBody, FileStatView};
use sandyard_protocol::{Edit, FileStat, GuestErrorCode};
use sandyard_sandbox::machine::{Machine, MachineError};

use super::files::{path_of, stat_view};
use crate::http::HttpState;
use crate::http::request::body::{BodyType, RequestBody, unreadable};
use crate::http::request::extract::RouteJob;
use crate::http::request::query::query;
use crate::http::response::failure::{HttpAnswer, HttpFailure};

/// Largest file that is remembered; larger ones are data.
const REMEMBERED_BYTES: u64 = 1024 * 1024;

/// Writes a whole file atomically and makes missing folders. A path that ends in `/` makes a folder.
#[utoipa::path(
    put, path = "/jobs/{id}/files/{path}", tag = "files",
    params(
        ("id" = String, Path, description = "The job"),
        ("path" = String, Path, description = "Relative to the workspace"),
        ("mode" = Option<String>, Query, description = "Permission bits in octal, 644 if not given"),
        ("If-None-Match" = Option<String>, Header, description = "`*`: only if there is no such file yet"),
    ),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 200, description = "Written", body = FileStatView),
        (status = 400, description = "A malformed path", body = ErrorBody),
        (status = 412, description = "There is such a file", body = ErrorBody),
        (status = 507, description = "The workspace is full", body = ErrorBody),
    )
)]
pub(in crate::http) async fn write(
    State(state): State<HttpState>,
    RouteJob(job): RouteJob,
    uri: Uri,
    headers: HeaderMap,
    body: RequestBody,
) -> HttpAnswer {
    let path = named_path(&uri)?;
    let mode = mode(&uri)?;
    let machine = state.machine(&job).await?;
    // Check and write are two calls to the guest: two requests at once may both find no file, and the later one wins.
    if headers.get(IF_NONE_MATCH).is_some_and(|value| value == "*") && exists(&machine, &path).await? {
        return Err(ApiError::new(ErrorCode::PreconditionFailed, "there is such a file already").into());
    }
    let stat = if uri.path().ends_with('/') {
        machine.make_directory(&path).await?
    } else {
        let (stat, written) = write_file(&machine, &path, mode, body).await?;
        if let Some(bytes) = written {
            state.yard().remember_file(&job, &path, bytes).await;
        }
        stat
    };
    Ok(Json(stat_view(&path, stat)).into_response())
}

/// Writes a body to a file; returns it too if it is a text to be remembered. The guest needs the length first, so a body of unknown length is read into memory, within the
/// bound of other bodies.
async fn write_file(
    machine: &Machine,
    path: &str,
    mode: Option<u32>,
    body: RequestBody,
) -> Result<(FileStat, Option<Vec<u8>>), HttpFailure> {
    let (size, mut pending, mut rest, _room) = match body.announced() {
        Some(size) => (size, Bytes::new(), body.into_stream(), None),
        None => {
            let whole = body.whole(BodyType::Text).await?;
            (whole.bytes.len() as u64, whole.bytes, Body::empty(), Some(whole.room))
        }
    };
    // Dropping the writer, because the client went away, leaves the old file as it was.
    let mut writer = machine.write(path, size, mode).await?;
    let mut written = (size > 0 && size <= REMEMBERED_BYTES).then(Vec::new);
    loop {
        writer.send(&pending).await?;
        // Data is not remembered: nobody asks for it by words.
        match &mut written {
            Some(bytes) if !pending.contains(&0) => bytes.extend_from_slice(&pending),
            _ => written = None,
        }
        match rest.frame().await {
            None => break,
            Some(frame) => {
                pending = frame.map_err(|error| unreadable(&error))?.into_data().unwrap_or_default()
            }
        }
    }
    Ok((writer.finish().await?, written))
}

async fn exists(machine: &Machine, path: &str) -> Result<bool, HttpFailure> {
    match machine.stat(path).await {
        Ok(_) => Ok(true),
        Err(MachineError::Guest(refused)) if refused.code == GuestErrorCode::NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn mode(uri: &Uri) -> Result<Option<u32>, HttpFailure> {
    let query = query(uri, &["mode"])?;
    let Some(text) = query.text("mode") else { return Ok(None) };
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777 && !text.starts_with('+'));
    let refused =
        || ApiError::new(ErrorCode::BadRequest, "`mode` must be permission bits in octal, up to 777");
    mode.map(Some).ok_or_else(|| refused().into())
}

/// Moves a file or folder, or edits a file in place.
#[utoipa::path(
    patch, path = "/jobs/{id}/files/{path}", tag = "files",
    params(("id" = String, Path, description = "The job"), ("path" = String, Path, description = "Relative to the workspace")),
    request_body = FileChangeBody,
    responses(
        (status = 200, description = "Changed", body = FileStatView),
        (status = 404, body = ErrorBody),
        (status = 409, description = "The target exists, or an `old` text did not match once", body = ErrorBody),
    )
)]
pub(in crate::http) async fn change(
    State(state): State<HttpState>,
    RouteJob(job): RouteJob,
    uri: Uri,
    body: RequestBody,
) -> HttpAnswer {
    let path = named_path(&uri)?;
    query(&uri, &["wait"])?;
    let (change, _room) = body.json(FileChange::from_json).await?;
    let machine = state.machine(&job).await?;
    let view = match change {
        FileChange::Move(target) => stat_view(&target, machine.rename(&path, &target).await?),
        FileChange::Edits(edits) => {
            let edits = edits.into_iter().map(|edit| Edit { old: edit.old, new: edit.new }).collect();
            stat_view(&path, machine.edit(&path, edits).await?)
        }
    };
    Ok(Json(view).into_response())
}

/// Removes a file, or a folder with `?recursive=1`.
#[utoipa::path(
    delete, path = "/jobs/{id}/files/{path}", tag = "files",
    params(
        ("id" = String, Path, description = "The job"),
        ("path" = String, Path, description = "Relative to the workspace"),
        ("recursive" = Option<u8>, Query, description = "1: a folder with all that is in it"),
    ),
    responses(
        (status = 204, description = "Removed"),
        (status = 404, body = ErrorBody),
        (status = 409, description = "A folder that is not empty", body = ErrorBody),
    )
)]
pub(in crate::http) async fn remove(
    State(state): State<HttpState>,
    RouteJob(job): RouteJob,
    uri: Uri,
) -> HttpAnswer {
    let path = named_path(&uri)?;
    let recursive = query(&uri, &["recursive", "wait"])?.switch("recursive")?;
    let machine = state.machine(&job).await?;
    machine.remove(&path, recursive).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// The path of a URI. The workspace itself can be neither written, moved nor removed.
fn named_path(uri: &Uri) -> Result<String, HttpFailure> {
    let path = path_of(uri)?;
    if path.is_empty() {
        return Err(ApiError::new(ErrorCode::InvalidPath, "the path names the workspace itself").into());
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_octal_permission_bits() {
        let parsed = |query: &str| {
            mode(&format!("/x?mode={query}").parse().unwrap()).map_err(|failure| failure.code())
        };
        assert_eq!(parsed("755"), Ok(Some(0o755)));
        assert_eq!(parsed(""), Ok(None));
        for text in ["4755", "888", "-1", "%2B7", "x"] {
            assert_eq!(parsed(text), Err("bad_request"), "{text}");
        }
    }

    #[test]
    fn the_workspace_itself_is_no_file() {
        for uri in ["/jobs/x/files", "/jobs/x/files/"] {
            assert_eq!(named_path(&uri.parse().unwrap()).unwrap_err().code(), "invalid_path", "{uri}");
        }
    }
}
