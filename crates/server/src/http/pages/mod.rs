//! Pages of our own: a landing page, and the OpenAPI document with forms to try it. Nothing is loaded from outside, no page
//! has an inline script, and text of a job is set as text, never as markup.

use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use sandyard_api::{ApiError, ErrorCode};

use super::HttpState;
use crate::http::response::failure::{HttpAnswer, HttpFailure};

/// Scripts, styles and requests of this origin only; no forms, no frames, no plugins.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

const ASSETS: [(&str, &str, &str); 7] = [
    ("page.css", "text/css; charset=utf-8", include_str!("page.css")),
    ("page.js", "text/javascript; charset=utf-8", include_str!("page.js")),
    ("home.js", "text/javascript; charset=utf-8", include_str!("home.js")),
    ("desktop.css", "text/css; charset=utf-8", sandyard_web::DESKTOP_CSS),
    ("desktop.js", "text/javascript; charset=utf-8", sandyard_web::DESKTOP_JS),
    ("docs.js", "text/javascript; charset=utf-8", include_str!("docs.js")),
    ("open.js", "text/javascript; charset=utf-8", include_str!("open.js")),
];

/// The landing page.
#[utoipa::path(get, path = "/", tag = "yard", responses((status = 200, body = String, content_type = "text/html")))]
pub(super) async fn home() -> Response {
    page(include_str!("home.html"))
}

/// This document, to read and to try.
#[utoipa::path(get, path = "/docs", tag = "yard", responses((status = 200, body = String, content_type = "text/html")))]
pub(super) async fn docs() -> Response {
    page(include_str!("docs.html"))
}

/// The page for a browser that came to a sandbox without a good ticket or key.
pub(super) fn open() -> Response {
    let mut response = page(include_str!("open.html"));
    *response.status_mut() = StatusCode::UNAUTHORIZED;
    response
}

/// The OpenAPI document.
#[utoipa::path(get, path = "/openapi.json", tag = "yard", responses((status = 200, description = "This document", body = Object)))]
pub(super) async fn openapi(State(state): State<HttpState>) -> HttpAnswer {
    Ok(([(CONTENT_TYPE, "application/json")], state.openapi()).into_response())
}

/// A script or style of the pages.
pub(super) async fn asset(uri: Uri) -> HttpAnswer {
    let name = uri.path().trim_start_matches("/assets/");
    let found = ASSETS.iter().find(|(known, _, _)| *known == name);
    let (_, kind, text) = found
        .ok_or_else(|| HttpFailure::from(ApiError::new(ErrorCode::NotFound, "there is no such route")))?;
    Ok(([(CONTENT_TYPE, *kind), (CACHE_CONTROL, "no-cache")], *text).into_response())
}

fn page(html: &'static str) -> Response {
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (CACHE_CONTROL, "no-cache"),
    ];
    (headers, html).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_load_nothing_from_outside_and_have_no_inline_script() {
        for html in [include_str!("home.html"), include_str!("docs.html"), include_str!("open.html")] {
            assert!(!html.contains("http:") && !html.contains("https:") && !html.contains("//"), "{html}");
            let handlers = html.split_whitespace().any(|word| word.starts_with("on") && word.contains('='));
            assert!(!html.contains("<style") && !html.contains(" style=") && !handlers, "{html}");
            for script in html.split("<script").skip(1) {
                assert!(script.trim_start().starts_with("type=\"module\" src=\"/assets/"), "{script}");
            }
        }
    }

    #[test]
    fn w18_scripts_never_make_markup_from_text() {
        for (name, _, text) in ASSETS {
            for forbidden in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
                assert!(!text.contains(forbidden), "{name}: {forbidden}");
            }
        }
    }
}
