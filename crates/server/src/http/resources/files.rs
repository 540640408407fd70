//! `GET /jobs/{id}/files/{path}`: bytes of a file, listing of a folder, facts, search, archive.
//!
//! The path is taken from the raw URI, decoded once and checked. The guest resolves every path beneath the workspace and
//! decides about links and races.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::ETAG;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::IntoResponse;
use futures_util::stream;
use sandyard_api::{
    ApiError, ErrorBody, ErrorCode, FileEntryView, FileStatView, ListingView, Query, SearchHitView,
    SearchView, Timestamp, bounds, workspace_path_of_uri,
};
use sandyard_protocol::{DirectoryEntry, FileRange, FileStat, GuestErrorCode};
use sandyard_sandbox::machine::{FileContent, Machine, MachineError};

use super::archive;
use crate::http::HttpState;
use crate::http::request::conditions::{none_match, tag_value};
use crate::http::request::extract::RouteJob;
use crate::http::request::query::query;
use crate::http::response::content::{ByteStream, ContentHead};
use crate::http::response::failure::{HttpAnswer, HttpFailure};
use crate::http::response::ranges::{self, ContentPart};

/// A file's bytes (with ranges), or a folder's listing.
#[utoipa::path(
    get, path = "/jobs/{id}/files/{path}", tag = "files",
    params(
        ("id" = String, Path, description = "The job"),
        ("path" = String, Path, description = "Relative to the workspace"),
        ("stat" = Option<u8>, Query, description = "1: facts about the path instead"),
        ("search" = Option<String>, Query, description = "Look for this text in names and contents below the folder"),
        ("archive" = Option<String>, Query, description = "`zip`: the folder as an archive"),
        ("after" = Option<String>, Query, description = "Next page of a listing: begin after this name"),
        ("Range" = Option<String>, Header, description = "One range of bytes"),
    ),
    responses(
        (status = 200, description = "Bytes, or a listing, facts or hits", content(
            (Vec<u8> = "application/octet-stream"), (ListingView = "application/json"),
        )),
        (status = 206, description = "A part of the file", body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 400, description = "A malformed path", body = ErrorBody),
        (status = 404, body = ErrorBody),
        (status = 409, description = "The job has no live sandbox", body = ErrorBody),
    )
)]
pub(in crate::http) async fn read(
    State(state): State<HttpState>,
    RouteJob(job): RouteJob,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> HttpAnswer {
    let path = path_of(&uri)?;
    let query = query(&uri, &["stat", "search", "archive", "after", "wait"])?;
    let look = FileQuery::from_query(&query)?;
    let machine = state.machine(&job).await?;
    match look {
        FileQuery::Facts => Ok(Json(stat_view(&path, machine.stat(&path).await?)).into_response()),
        FileQuery::Search(text) => search(&machine, &path, text).await,
        FileQuery::Archive => archive::read(&state, &job, &path, &method).await,
        FileQuery::Listing(after) => list(&machine, &path, after).await,
        FileQuery::Content if path.is_empty() => list(&machine, &path, None).await,
        FileQuery::Content => match content(&machine, &path, &method, &headers).await {
            Err(ContentRefusal::IsADirectory) => list(&machine, &path, None).await,
            Err(ContentRefusal::Other(failure)) => Err(failure),
            Ok(response) => Ok(response),
        },
    }
}

/// The listing of the workspace.
#[utoipa::path(
    get, path = "/jobs/{id}/files/", tag = "files",
    params(("id" = String, Path, description = "The job")),
    responses((status = 200, description = "The workspace", body = ListingView), (status = 404, body = ErrorBody))
)]
pub(in crate::http) async fn read_root(
    state: State<HttpState>,
    job: RouteJob,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
) -> HttpAnswer {
    read(state, job, method, uri, headers).await
}

/// The part of a path that a query asks for.
enum FileQuery<'a> {
    Content,
    Facts,
    Search(&'a str),
    Archive,
    Listing(Option<&'a str>),
}

impl<'a> FileQuery<'a> {
    fn from_query(query: &'a Query) -> Result<Self, HttpFailure> {
        let bad = |message: &str| HttpFailure::from(ApiError::new(ErrorCode::BadRequest, message));
        match (query.switch("stat")?, query.text("search"), query.text("archive"), query.text("after")) {
            (false, None, None, None) => Ok(Self::Content),
            (true, None, None, None) => Ok(Self::Facts),
            (false, Some(text), None, None) if text.len() <= bounds::SEARCH_BYTES => Ok(Self::Search(text)),
            (false, Some(_), None, None) => Err(bad("`search` is too long")),
            (false, None, Some("zip"), None) => Ok(Self::Archive),
            (false, None, Some(_), None) => Err(bad("`archive` must be `zip`")),
            (false, None, None, after) => Ok(Self::Listing(after)),
            _ => Err(bad("`stat`, `search`, `archive` and `after` exclude each other")),
        }
    }
}

/// The path within the workspace that a URI names.
pub(in crate::http) fn path_of(uri: &Uri) -> Result<String, HttpFailure> {
    let mut segments = uri.path().splitn(5, '/');
    // "", "jobs", id, "files", path
    Ok(workspace_path_of_uri(segments.nth(4).unwrap_or_default())?)
}

enum ContentRefusal {
    IsADirectory,
    Other(HttpFailure),
}

impl From<MachineError> for ContentRefusal {
    fn from(error: MachineError) -> Self {
        match error {
            MachineError::Guest(refused) if refused.code == GuestErrorCode::IsADirectory => {
                Self::IsADirectory
            }
            other => Self::Other(other.into()),
        }
    }
}

/// Bytes of a file. A range needs the file's length first, which an empty read returns. The file is then opened again, and
/// the entity tag shows if it has changed in between.
async fn content(
    machine: &Machine,
    path: &str,
    method: &Method,
    headers: &HeaderMap,
) -> Result<axum::response::Response, ContentRefusal> {
    let only_head = *method == Method::HEAD;
    let conditional = ranges::is_requested(headers) || headers.contains_key("if-none-match") || only_head;
    let nothing = FileRange { start: 0, length: Some(0) };
    let mut opened = machine.read(path, conditional.then_some(nothing)).await?;
    let (stat, size) = (opened.stat.clone(), opened.stat.size);
    let tag = tag(&stat);
    if none_match(headers, &tag) {
        return Ok((StatusCode::NOT_MODIFIED, [(ETAG, tag_value(&tag))]).into_response());
    }
    let part = ranges::requested(headers, size, &tag);
    let length = match part {
        ContentPart::Outside => return Err(ContentRefusal::Other(HttpFailure::outside(size))),
        ContentPart::Whole if conditional && !only_head => {
            opened = machine.read(path, None).await?;
            opened.length
        }
        ContentPart::Whole if only_head => size,
        ContentPart::Whole => opened.length,
        ContentPart::Range { start, length } => {
            opened = machine.read(path, Some(FileRange { start, length: Some(length) })).await?;
            length
        }
    };
    // The program may have changed the file between the two opens. The headers would promise a wrong length.
    if !only_head && opened.length != length {
        let changed = ApiError::new(ErrorCode::SandboxFailed, "the file changed while it was read");
        return Err(ContentRefusal::Other(changed.into()));
    }
    let body = if only_head { Body::empty() } else { Body::from_stream(bytes_of(opened)) };
    let whole = if part == ContentPart::Whole { length } else { size };
    let file_name = path.rsplit('/').next().unwrap_or("file");
    let head = ContentHead { kind: "application/octet-stream", file_name, tag: &tag, length: whole, part };
    Ok(head.answer(body))
}

fn bytes_of(content: FileContent) -> ByteStream {
    Box::pin(stream::try_unfold(content, |mut content| async move {
        let bytes = content.next().await.map_err(std::io::Error::other)?;
        Ok(bytes.map(|bytes| (bytes, content)))
    }))
}

fn tag(stat: &FileStat) -> String {
    format!("\"{:x}-{:x}\"", stat.modified_ms, stat.size)
}

async fn list(machine: &Machine, path: &str, after: Option<&str>) -> HttpAnswer {
    let (entries, more) = machine.list(path, after).await?;
    let next = entries.last().filter(|_| more).map(|entry| entry.name.clone());
    let entries = entries.into_iter().map(entry_view).collect();
    Ok(Json(ListingView { path: path.to_owned(), entries, next }).into_response())
}

async fn search(machine: &Machine, path: &str, text: &str) -> HttpAnswer {
    let (hits, truncated) = machine.search(path, text, bounds::SEARCH_HITS).await?;
    let hits = hits
        .into_iter()
        .map(|hit| SearchHitView { path: hit.path, line: hit.line, text: hit.text })
        .collect();
    Ok(Json(SearchView { hits, truncated }).into_response())
}

/// Facts on the wire.
pub(in crate::http) fn stat_view(path: &str, stat: FileStat) -> FileStatView {
    FileStatView {
        path: path.to_owned(),
        kind: stat.kind,
        size: stat.size,
        mode: format!("{:04o}", stat.mode & 0o7777),
        modified_at: Timestamp::from_unix_ms(stat.modified_ms),
        target: stat.target,
    }
}

fn entry_view(entry: DirectoryEntry) -> FileEntryView {
    let stat = stat_view("", entry.stat);
    FileEntryView {
        name: entry.name,
        kind: stat.kind,
        size: stat.size,
        mode: stat.mode,
        modified_at: stat.modified_at,
        target: stat.target,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(uri: &str) -> Result<String, &'static str> {
        path_of(&uri.parse().unwrap()).map_err(|failure| failure.code())
    }

    #[test]
    fn f1_the_path_is_taken_from_the_raw_uri() {
        assert_eq!(path("/jobs/x/files"), Ok(String::new()));
        assert_eq!(path("/jobs/x/files/"), Ok(String::new()));
        assert_eq!(path("/jobs/x/files/a/b%20c/"), Ok("a/b c".to_owned()));
        assert_eq!(path("/jobs/x/files//etc/passwd"), Err("invalid_path"));
        assert_eq!(path("/jobs/x/files/../y/files/z"), Err("invalid_path"));
        assert_eq!(path("/jobs/x/files/a%00"), Err("invalid_path"));
    }
}
