//! `GET /jobs/{id}/recall`: passages of everything that a job has seen, with citations.

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use axum::response::IntoResponse;
use sandyard_api::{
    ApiError, ErrorBody, ErrorCode, PassageSourceView, PassageView, Query, RecallView, Timestamp, nearest,
};
use sandyard_memory::{RecallScope, SourceOrigin};

use crate::app::{FileVersions, RecallQuery, RecalledPassage, RecalledPassages, RecalledPlace, origin_word};
use crate::http::HttpState;
use crate::http::request::extract::RouteJob;
use crate::http::request::query::query;
use crate::http::response::failure::{HttpAnswer, HttpFailure};

/// Passages in one answer, if the client does not say.
const DEFAULT_PASSAGES: u64 = 10;
/// Passages in one answer; each has at most 2,400 bytes.
const MAX_PASSAGES: u64 = 100;
/// Longest question: an error message with its traceback.
const MAX_QUESTION_BYTES: usize = 16 * 1024;

/// Finds passages of what the job, its agent and people have said, run, read and written, also long ago and after the job's end. With
/// `path` and without `q`, the versions of that file as they were read or written, newest first.
#[utoipa::path(
    get, path = "/jobs/{id}/recall", tag = "jobs",
    params(
        ("id" = String, Path, description = "The job"),
        ("q" = Option<String>, Query, description = "The question, in words or as an identifier or error message"),
        ("k" = Option<u64>, Query, description = "Number of passages, 1 to 100; 10 if not given"),
        ("scope" = Option<String>, Query, description = "Only texts of these origins, separated by commas: `person`, `model`, `call`, `result`, `file`, `cell`, `note`"),
        ("path" = Option<String>, Query, description = "Only texts whose path begins so; without `q`, the file itself"),
        ("before" = Option<u64>, Query, description = "Only texts from before this journal entry"),
        ("after" = Option<u64>, Query, description = "Only texts from after this journal entry"),
    ),
    responses(
        (status = 200, description = "Passages, best first", body = RecallView),
        (status = 400, body = ErrorBody),
        (status = 404, body = ErrorBody),
    )
)]
pub(in crate::http) async fn find(
    State(state): State<HttpState>,
    RouteJob(job): RouteJob,
    uri: Uri,
) -> HttpAnswer {
    let query = query(&uri, &["q", "k", "scope", "path", "before", "after"])?;
    let count = query.whole("k", 1..=MAX_PASSAGES)?.unwrap_or(DEFAULT_PASSAGES) as usize;
    let before = query.whole("before", 1..=u64::MAX)?;
    let found = match (query.text("q"), query.text("path")) {
        (None, Some(path)) => {
            let before = before.unwrap_or(u64::MAX);
            let versions = FileVersions { path: path.to_owned(), before, count };
            state.yard().file_versions(&job, &versions).await?
        }
        (None, None) => return Err(refused("`q` is the question, or `path` a file").into()),
        (Some(text), _) if text.len() > MAX_QUESTION_BYTES => {
            return Err(refused("`q` may have 16 KiB").into());
        }
        (Some(text), _) => {
            let recalled = RecallQuery { text: text.to_owned(), count, scope: scope(&query, before)? };
            state.yard().recall(&job, &recalled).await?
        }
    };
    Ok(Json(view(found)).into_response())
}

fn scope(query: &Query, before: Option<u64>) -> Result<RecallScope, HttpFailure> {
    let words = query.text("scope").unwrap_or_default().split(',').map(str::trim);
    let origins = words.filter(|word| !word.is_empty()).map(origin).collect::<Result<_, _>>()?;
    let after = query.whole("after", 0..=u64::MAX)?;
    // Numbers are compared only if they were asked for: texts of jobs without a journal have none.
    let numbers = (before.is_some() || after.is_some()).then(|| {
        after.map_or(0, |after| after.saturating_add(1))..=before.map_or(u64::MAX, |before| before - 1)
    });
    Ok(RecallScope { origins, path_prefix: query.text("path").map(str::to_owned), numbers })
}

fn origin(word: &str) -> Result<SourceOrigin, HttpFailure> {
    let found =
        SourceOrigin::ALL.into_iter().find(|origin| origin_word(*origin) == word.trim_end_matches('s'));
    found.ok_or_else(|| {
        let shown: String = word.chars().take(64).collect();
        let known = SourceOrigin::ALL.map(origin_word);
        let error = refused(&format!("there is no scope `{shown}`"));
        match nearest(word, known) {
            Some(meant) => error.with_hint(format!("do you mean `{meant}`?")).into(),
            None => error.with_hint(format!("scopes: {}", known.join(", "))).into(),
        }
    })
}

fn refused(message: &str) -> ApiError {
    ApiError::new(ErrorCode::BadRequest, message)
}

fn view(found: RecalledPassages) -> RecallView {
    let RecalledPassages { passages, unverified, rebuilt } = found;
    RecallView { passages: passages.into_iter().map(passage).collect(), unverified, rebuilt }
}

fn passage(found: RecalledPassage) -> PassageView {
    let RecalledPassage { bytes, name, score, digest, place, seen, first } = found;
    PassageView {
        text: String::from_utf8_lossy(&bytes).into_owned(),
        name,
        score,
        digest: digest.to_string(),
        bytes: bytes.len() as u64,
        seen,
        source: source(place),
        first: first.map(source),
    }
}

fn source(place: RecalledPlace) -> PassageSourceView {
    let RecalledPlace { entry, part, text, origin, path, at_ms, start, lines } = place;
    PassageSourceView {
        entry: (entry > 0).then_some(entry),
        part: text.is_none().then_some(part),
        text,
        origin: origin_word(origin).to_owned(),
        path,
        lines: lines.into(),
        start,
        at: Timestamp::from_unix_ms(i64::try_from(at_ms).unwrap_or(0)),
    }
}
