//! Parts of a request: the job in its path, its query, its conditions. Read from the raw URI, so that what is routed on is what is used.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::header::{ACCEPT, IF_NONE_MATCH};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri};
use sandyard_api::Query;

use super::failure::Failure;
use crate::app::AppError;
use crate::auth::Caller;
use crate::job::JobId;

/// The job that a path names. Text that is no id is an unknown job, like any other.
#[derive(Debug)]
pub(super) struct Job(pub(super) JobId);

impl<S: Sync> FromRequestParts<S> for Job {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let id = job_segment(parts.uri.path()).and_then(JobId::parse);
        id.map(Self).ok_or_else(|| AppError::unknown_job().into())
    }
}

/// Who sent the request, as `gate` found.
#[derive(Debug)]
pub(super) struct By(pub(super) Caller);

impl<S: Sync> FromRequestParts<S> for By {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(parts.extensions.get().cloned().unwrap_or_default()))
    }
}

/// What a path names of a job: the segment after `/jobs/{id}/{resource}/`, as sent. Names are plain, so nothing is decoded.
#[derive(Debug)]
pub(super) struct Named(pub(super) String);

impl<S: Sync> FromRequestParts<S> for Named {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        Ok(Self(parts.uri.path().split('/').nth(4).unwrap_or_default().to_owned()))
    }
}

/// The segment after `/jobs/` or `/status/`, as sent.
pub(super) fn job_segment(path: &str) -> Option<&str> {
    let rest = path.strip_prefix("/jobs/").or_else(|| path.strip_prefix("/status/"))?;
    rest.split('/').next()
}

/// A port as a path or a name says it: plain digits, from 1 to 65535.
pub(super) fn port(text: &str) -> Option<u16> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|_| plain)
}

/// The query of a URI, with these names only.
pub(super) fn query(uri: &Uri, known: &[&str]) -> Result<Query, Failure> {
    Ok(Query::read(query_pairs(uri.query().unwrap_or_default()), known)?)
}

/// The decoded pairs of a query string; bytes that are not UTF-8 are replaced.
pub(super) fn query_pairs(query: &str) -> Vec<(String, String)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode_form(name), decode_form(value))
        })
        .collect()
}

fn decode_form(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let escaped = bytes.get(at + 1..at + 3).filter(|_| *byte == b'%').and_then(hexadecimal);
        decoded.push(match (byte, escaped) {
            (_, Some(value)) => value,
            (b'+', None) => b' ',
            (other, None) => *other,
        });
        at += if escaped.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

/// Two digits as a byte; not by the standard parser, which takes a sign.
fn hexadecimal(digits: &[u8]) -> Option<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let (high, low) = (digit(digits.first()?)?, digit(digits.get(1)?)?);
    u8::try_from(high * 16 + low).ok()
}

/// Whether `If-None-Match` holds this entity tag, weakly compared.
pub(super) fn none_match(headers: &HeaderMap, tag: &str) -> bool {
    let values = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = values.flat_map(|value| value.split(',')).map(str::trim);
    tags.any(|known| known == "*" || known.trim_start_matches("W/") == tag)
}

/// Whether the client asked for server-sent events.
pub(super) fn wants_events(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|kind| kind.trim().starts_with("text/event-stream"))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn queries_decode_once_and_without_panic() {
        let pairs = query_pairs("a=1&b=%2525&c=x+y&d&=e&f=%&g=%zz&h=%c3%bc&i=%+1");
        let values: Vec<_> = pairs.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(values, ["1", "%25", "x y", "", "e", "%", "%zz", "ü", "% 1"]);
    }

    #[test]
    fn entity_tags_compare_weakly() {
        let headers = HeaderMap::from_iter([(IF_NONE_MATCH, HeaderValue::from_static("\"a\", W/\"b\""))]);
        assert!(
            none_match(&headers, "\"a\"") && none_match(&headers, "\"b\"") && !none_match(&headers, "\"c\"")
        );
    }
}
