//! Extractors: the caller and the job that the gate of the route admitted, and names in the path.
//!
//! Paths are read from the raw URI, so that the text that was routed on is the text that is used.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::app::{AppError, JobAccess};
use crate::auth::{Caller, unauthorized};
use crate::http::response::failure::HttpFailure;

/// The caller of a request. The gate of the route has put it there, alone or with the job; a public route has none.
#[derive(Debug)]
pub(in crate::http) struct RouteCaller(pub(in crate::http) Caller);

impl<S: Sync> FromRequestParts<S> for RouteCaller {
    type Rejection = HttpFailure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, HttpFailure> {
        let of_job = || parts.extensions.get::<JobAccess>().map(JobAccess::caller);
        let caller = parts.extensions.get().or_else(of_job);
        caller.cloned().map(Self).ok_or_else(|| unauthorized().into())
    }
}

/// The job that a path names, as the gate of the route got it from [`Yard::job`](crate::app::Yard::job).
#[derive(Debug)]
pub(in crate::http) struct RouteJob(pub(in crate::http) JobAccess);

impl<S: Sync> FromRequestParts<S> for RouteJob {
    type Rejection = HttpFailure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, HttpFailure> {
        parts.extensions.get().cloned().map(Self).ok_or_else(|| AppError::unknown_job().into())
    }
}

/// The segment after `/jobs/{id}/{resource}/`, as sent. Names are plain, so nothing is decoded.
#[derive(Debug)]
pub(in crate::http) struct PathName(pub(in crate::http) String);

impl<S: Sync> FromRequestParts<S> for PathName {
    type Rejection = HttpFailure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, HttpFailure> {
        Ok(Self(parts.uri.path().split('/').nth(4).unwrap_or_default().to_owned()))
    }
}

/// The segment after `/jobs/` or `/status/`, as sent.
pub(in crate::http) fn job_segment(path: &str) -> Option<&str> {
    let rest = path.strip_prefix("/jobs/").or_else(|| path.strip_prefix("/status/"))?;
    rest.split('/').next()
}

/// Reads a port in a path or a name: plain digits, from 1 to 65535.
pub(in crate::http) fn port(text: &str) -> Option<u16> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|_| plain)
}
