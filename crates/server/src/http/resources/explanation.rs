//! The explanation of a result: a page, its diagram, and the facts behind both.
//!
//! Everything here was computed inside a sandbox. Markdown and pictures are written anew from lists of what is known, and the
//! page may neither run scripts nor request anything.

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY};
use axum::http::{HeaderName, Uri};
use axum::response::{IntoResponse, Json};
use sandyard_api::{ApiError, ErrorBody, ErrorCode};
use sandyard_explain::page::{CHANGES_SLUG, PAGE_POLICY, explained_page, standalone_svg};

use crate::http::HttpState;
use crate::http::request::extract::RouteJob;
use crate::http::request::query::query;
use crate::http::response::failure::HttpAnswer;

/// A picture is a document of its own when it is opened alone: its styles, and nothing else.
const PICTURE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; sandbox";

/// The explanation as a page: what the result is, how to run it, how its parts work together, with diagrams.
#[utoipa::path(
    get, path = "/jobs/{id}/explained", tag = "jobs",
    params(
        ("id" = String, Path, description = "The job"),
        ("ticket" = Option<String>, Query, description = "From POST /jobs/{id}/tickets"),
    ),
    responses(
        (status = 200, description = "A page", body = String, content_type = "text/html"),
        (status = 404, description = "No such job, or no explanation", body = ErrorBody),
        (status = 409, description = "The job has not ended", body = ErrorBody),
    )
)]
pub(in crate::http) async fn page(
    State(state): State<HttpState>,
    RouteJob(job): RouteJob,
    uri: Uri,
) -> HttpAnswer {
    query(&uri, &["ticket"])?;
    let explained = state.yard().explanation(&job).await?;
    let title = format!("{} explained", explained.explanation.name);
    let links = |link: &str| console_file(job.id().as_str(), link);
    let page = explained_page(&title, &explained.explanation.markdown, &explained.diagrams, &links);
    Ok((headers("text/html; charset=utf-8", PAGE_POLICY), page).into_response())
}

/// The diagram of all parts as SVG.
#[utoipa::path(
    get, path = "/jobs/{id}/diagram.svg", tag = "jobs",
    params(
        ("id" = String, Path, description = "The job"),
        ("of" = Option<String>, Query, description = "`changes` for what the job changed, or the slug of a part for its inside; all parts if it is missing"),
        ("ticket" = Option<String>, Query, description = "From POST /jobs/{id}/tickets"),
    ),
    responses(
        (status = 200, description = "The picture", body = String, content_type = "image/svg+xml"),
        (status = 404, description = "No such job, no explanation, or an image without Graphviz", body = ErrorBody),
        (status = 409, description = "The job has not ended", body = ErrorBody),
    )
)]
pub(in crate::http) async fn diagram(
    State(state): State<HttpState>,
    RouteJob(job): RouteJob,
    uri: Uri,
) -> HttpAnswer {
    let of = picture_slug(query(&uri, &["of", "ticket"])?.text("of"));
    let explained = state.yard().explanation(&job).await?;
    let picture = explained.diagrams.iter().find(|diagram| diagram.slug == of);
    let links = |link: &str| part_picture(link).or_else(|| console_file(job.id().as_str(), link));
    let svg = picture.and_then(|diagram| standalone_svg(&diagram.svg, &links)).ok_or_else(|| {
        ApiError::new(ErrorCode::NotExplained, "this explanation has no such picture")
            .with_hint("`GET /jobs/{id}/explanation` names its parts; only the full image draws pictures")
    })?;
    Ok((headers("image/svg+xml", PICTURE_POLICY), svg).into_response())
}

/// The diagram of all parts for `dot` of Graphviz.
#[utoipa::path(
    get, path = "/jobs/{id}/diagram.dot", tag = "jobs",
    params(
        ("id" = String, Path, description = "The job"),
        ("of" = Option<String>, Query, description = "`changes` for what the job changed, or the slug of a part for its inside; all parts if it is missing"),
    ),
    responses(
        (status = 200, description = "The graph", body = String, content_type = "text/vnd.graphviz"),
        (status = 404, description = "No such job, or no explanation", body = ErrorBody),
        (status = 409, description = "The job has not ended", body = ErrorBody),
    )
)]
pub(in crate::http) async fn graph(
    State(state): State<HttpState>,
    RouteJob(job): RouteJob,
    uri: Uri,
) -> HttpAnswer {
    let of = picture_slug(query(&uri, &["of"])?.text("of"));
    let explanation = state.yard().explanation(&job).await?.explanation;
    let dot = match of.as_str() {
        "" => Some(explanation.dot),
        CHANGES_SLUG => explanation.changes.map(|changes| changes.dot),
        of => explanation.parts.into_iter().find(|part| part.slug == of).and_then(|part| part.dot),
    };
    let dot = dot.ok_or_else(|| {
        ApiError::new(ErrorCode::NotExplained, "this explanation has no such graph")
            .with_hint("`GET /jobs/{id}/explanation` names its parts")
    })?;
    Ok((headers("text/vnd.graphviz; charset=utf-8", PICTURE_POLICY), dot).into_response())
}

/// The facts behind the page: parts, uses between them with file and line, the page in Markdown.
#[utoipa::path(
    get, path = "/jobs/{id}/explanation", tag = "jobs",
    params(("id" = String, Path, description = "The job")),
    responses(
        (status = 200, description = "The explanation", body = Object),
        (status = 404, description = "No such job, or no explanation", body = ErrorBody),
        (status = 409, description = "The job has not ended", body = ErrorBody),
    )
)]
pub(in crate::http) async fn facts(
    State(state): State<HttpState>,
    RouteJob(job): RouteJob,
    uri: Uri,
) -> HttpAnswer {
    query(&uri, &[])?;
    Ok(Json(state.yard().explanation(&job).await?.explanation).into_response())
}

/// The address at which the console shows a line of a file of the job, for a link such as `src/a.py#L3`. Other links have none.
fn console_file(job: &str, link: &str) -> Option<String> {
    let (path, line) = link.split_once("#L")?;
    let line: u32 = line.parse().ok()?;
    Some(format!("/console/jobs/{job}/files/{path}?line={line}"))
}

/// The address of the picture of a part, beside the one that links to it.
fn part_picture(link: &str) -> Option<String> {
    let slug = link.strip_prefix("diagrams/").unwrap_or(link).strip_suffix(".svg")?;
    (!slug.contains(['/', '#', '%'])).then(|| format!("diagram.svg?of={slug}"))
}

/// The slug of the picture that a request names.
fn picture_slug(of: Option<&str>) -> String {
    match of {
        Some("changes") => CHANGES_SLUG.to_owned(),
        of => of.unwrap_or_default().to_owned(),
    }
}

fn headers(kind: &'static str, policy: &'static str) -> [(HeaderName, &'static str); 4] {
    [
        (CONTENT_TYPE, kind),
        (CONTENT_SECURITY_POLICY, policy),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-cache"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_the_console_and_to_other_pictures() {
        assert_eq!(
            console_file("job_1", "src/a%20b.py#L3").as_deref(),
            Some("/console/jobs/job_1/files/src/a%20b.py?line=3")
        );
        assert_eq!(console_file("job_1", "src/a.py"), None);
        assert_eq!(console_file("job_1", "src/a.py#L3\"x"), None);
        assert_eq!(part_picture("diagrams/core.svg").as_deref(), Some("diagram.svg?of=core"));
        assert_eq!(part_picture("core.svg").as_deref(), Some("diagram.svg?of=core"));
        assert_eq!(part_picture("a/b.svg"), None);
    }
}
