//! `GET /jobs/{id}/files/{path}?archive=zip`: a folder of a live sandbox, packed by the host.

use axum::body::Body;
use axum::http::Method;
use sandyard_api::{ApiError, ErrorCode};

use super::HttpState;
use super::content::ContentHead;
use super::failure::Answer;
use super::ranges::ContentPart;
use crate::job::JobId;

/// Archives made at the same time: each takes a processor and space on the host's disk.
pub(super) const AT_ONCE: usize = 2;

/// Packs the folder and sends the zip. Each request makes a new zip, so ranges are not served.
pub(super) async fn read(state: &HttpState, id: &JobId, path: &str, method: &Method) -> Answer {
    let busy =
        || ApiError::new(ErrorCode::TooManyRequests, "other archives are being made").with_retry_after_s(2);
    let permit = state.archives().try_acquire().map_err(|_| busy())?;
    let machine = state.machine(id).await?;
    let export = machine.export(path).await?;
    let archive = state.yard().archive(id, export).await?;
    drop(permit);
    let (length, tag) = (archive.length, format!("\"{}\"", archive.sha256));
    let folder = path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(id.as_str());
    let head = ContentHead {
        kind: "application/zip",
        file_name: &format!("{folder}.zip"),
        tag: &tag,
        length,
        part: ContentPart::Whole,
    };
    let body = match *method {
        Method::HEAD => Body::empty(),
        _ => Body::from_stream(archive.read(0, length).await?),
    };
    Ok(head.answer(body))
}
