//! `GET /jobs/{id}/files/{path}?archive=zip`: a folder of a live sandbox, packed by the host.

use axum::body::Body;
use axum::http::Method;
use sandyard_api::{ApiError, ErrorCode};
use tokio_util::io::ReaderStream;

use super::HttpState;
use super::content::ContentHead;
use super::failure::Answer;
use super::ranges::Part;
use crate::job::JobId;

/// Archives made at once: each takes a processor and space on the host's disk.
pub(super) const AT_ONCE: usize = 2;

/// Packs the folder and sends it. It is made anew each time, so there are no ranges of it.
pub(super) async fn read(state: &HttpState, id: &JobId, path: &str, method: &Method) -> Answer {
    let busy =
        || ApiError::new(ErrorCode::TooManyRequests, "other archives are being made").with_retry_after_s(2);
    let permit = state.archives().try_acquire().map_err(|_| busy())?;
    let machine = state.machine(id).await?;
    let export = machine.export(path).await?;
    let archive = state.yard().archive(id, export).await?;
    drop(permit);
    let folder = path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(id.as_str());
    let head = ContentHead {
        kind: "application/zip",
        file_name: &format!("{folder}.zip"),
        tag: &format!("\"{}\"", archive.sha256),
        length: archive.length,
        part: Part::Whole,
    };
    let body = match *method {
        Method::HEAD => Body::empty(),
        _ => Body::from_stream(ReaderStream::new(tokio::fs::File::from_std(archive.file))),
    };
    Ok(head.answer(body))
}
