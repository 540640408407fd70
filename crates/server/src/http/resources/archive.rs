//! `GET /jobs/{id}/files/{path}?archive=zip`: a folder of a live sandbox, packed by the host.

use axum::body::Body;
use axum::http::Method;
use sandyard_api::{ApiError, ErrorCode};

use crate::app::JobAccess;
use crate::http::HttpState;
use crate::http::response::content::ContentHead;
use crate::http::response::failure::HttpAnswer;
use crate::http::response::ranges::ContentPart;

/// Packs the folder and sends the zip. Each request makes a new zip, so ranges are not served.
pub(in crate::http) async fn read(
    state: &HttpState,
    job: &JobAccess,
    path: &str,
    method: &Method,
) -> HttpAnswer {
    let busy =
        || ApiError::new(ErrorCode::TooManyRequests, "other archives are being made").with_retry_after_s(2);
    let permit = state.archives().try_acquire().map_err(|_| busy())?;
    let machine = state.machine(job).await?;
    let export = machine.export(path).await?;
    let archive = state.yard().archive(job, export).await?;
    drop(permit);
    let (length, tag) = (archive.length, format!("\"{}\"", archive.sha256));
    let folder = path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(job.id().as_str());
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
