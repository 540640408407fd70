//! Pages of our own: the console, the API's document with forms to try it, and the small page that asks for a key. Nothing is
//! loaded from outside, no page has an inline script, and text of a job is set as text, never as markup.
//!
//! `sandyard_web` has the bytes. Scripts and styles have names with a hash, so browsers keep them for good; pages have entity
//! tags. What a browser can take compressed is sent as it was compressed at build time.

use axum::extract::State;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, VARY,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use sandyard_api::{ApiError, ErrorCode};
use sandyard_web::WebAsset;

use super::HttpState;
use crate::http::request::conditions::{none_match, tag_value};
use crate::http::response::failure::{HttpAnswer, HttpFailure};

/// Scripts, styles and requests of this origin only; no forms, no frames, no plugins. Pictures also from memory, which is how those
/// that need a key and the pixels of a desktop are shown. No script can make markup from text.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data: blob:; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

/// A file whose name has a hash never changes.
const FOR_GOOD: &str = "public, max-age=31536000, immutable";

/// The console.
#[utoipa::path(get, path = "/", tag = "yard", responses((status = 200, body = String, content_type = "text/html")))]
pub(super) async fn home(headers: HeaderMap) -> HttpAnswer {
    page("console.html", &headers)
}

/// A page of the console: its script shows what the address names, and asks for a key if that needs one.
#[utoipa::path(
    get, path = "/console/{path}", tag = "yard",
    params(("path" = String, Path, description = "The page, for example `jobs/<id>` or `system`")),
    responses((status = 200, body = String, content_type = "text/html"))
)]
pub(super) async fn console(headers: HeaderMap) -> HttpAnswer {
    page("console.html", &headers)
}

/// This document, to read and to try.
#[utoipa::path(get, path = "/docs", tag = "yard", responses((status = 200, body = String, content_type = "text/html")))]
pub(super) async fn docs(headers: HeaderMap) -> HttpAnswer {
    page("docs.html", &headers)
}

/// The page for a browser that came to a sandbox without a good ticket or key.
pub(super) fn open() -> Response {
    let mut response = page("open.html", &HeaderMap::new()).into_response();
    if response.status().is_success() {
        *response.status_mut() = StatusCode::UNAUTHORIZED;
    }
    response
}

/// The page of a desktop.
pub(super) fn desktop(headers: &HeaderMap) -> HttpAnswer {
    page("desktop.html", headers)
}

/// The OpenAPI document.
#[utoipa::path(get, path = "/openapi.json", tag = "yard", responses((status = 200, description = "This document", body = Object)))]
pub(super) async fn openapi(State(state): State<HttpState>) -> HttpAnswer {
    Ok(([(CONTENT_TYPE, "application/json")], state.openapi()).into_response())
}

/// A script, style or picture of the pages.
pub(super) async fn asset(uri: Uri, headers: HeaderMap) -> HttpAnswer {
    let name = uri.path().trim_start_matches("/assets/");
    match WebAsset::find(name).filter(|asset| !asset.name.ends_with(".html")) {
        Some(asset) => Ok(answer(asset, &headers)),
        None => Err(unknown()),
    }
}

fn page(name: &str, headers: &HeaderMap) -> HttpAnswer {
    let asset = WebAsset::find(name).ok_or_else(unknown)?;
    let mut response = answer(asset, headers);
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    Ok(response)
}

fn unknown() -> HttpFailure {
    ApiError::new(ErrorCode::NotFound, "there is no such route").into()
}

fn answer(asset: &'static WebAsset, headers: &HeaderMap) -> Response {
    let keep = if asset.is_immutable() { FOR_GOOD } else { "no-cache" };
    let kept = [
        (CACHE_CONTROL, HeaderValue::from_static(keep)),
        (VARY, HeaderValue::from_static("accept-encoding")),
        (ETAG, tag_value(asset.tag)),
    ];
    if none_match(headers, asset.tag) {
        return (StatusCode::NOT_MODIFIED, kept).into_response();
    }
    let media_type = [(CONTENT_TYPE, HeaderValue::from_static(asset.media_type))];
    if takes_brotli(headers) {
        let encoding = [(CONTENT_ENCODING, HeaderValue::from_static("br"))];
        return (kept, media_type, encoding, asset.brotli).into_response();
    }
    (kept, media_type, asset.bytes).into_response()
}

/// True if the client names brotli without refusing it.
fn takes_brotli(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|coding| {
        let (name, quality) = coding.split_once(';').unwrap_or((coding, ""));
        let refused = quality.trim().strip_prefix("q=").is_some_and(|q| q.trim().parse() == Ok(0.0));
        name.trim().eq_ignore_ascii_case("br") && !refused
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;
    use serde_json::{Value, json};
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::app::{ImageFlavour, ImageState, Images, Yard};
    use crate::auth::{AccessRules, KeyStore};
    use crate::config::ServerConfig;
    use crate::http::config::HttpConfig;
    use crate::http::limits::ServeLimits;

    struct NoImage;

    #[async_trait]
    impl Images for NoImage {
        fn state(&self, _: ImageFlavour) -> ImageState {
            ImageState::Missing { detail: "none".into(), hint: "none".into() }
        }

        async fn changed(&self) {
            std::future::pending().await
        }
    }

    static DOCUMENTS_MADE: AtomicUsize = AtomicUsize::new(0);

    fn counted_document(version: &str) -> Value {
        DOCUMENTS_MADE.fetch_add(1, Ordering::SeqCst);
        json!({"info": {"version": version}})
    }

    #[tokio::test]
    async fn f20_all_answers_with_the_document_share_the_bytes_of_one() {
        let data = tempfile::tempdir().unwrap();
        let config = ServerConfig::new(data.path().join("yard"), 1024);
        let config = HttpConfig {
            yard: Yard::start(config, Vec::new(), Arc::new(NoImage)).await.unwrap(),
            access: AccessRules::new("127.0.0.1", KeyStore::default()),
            limits: ServeLimits::default(),
            version: "0.0.0".to_owned(),
            settings: Vec::new(),
            shutdown: CancellationToken::new(),
        };
        let state = HttpState::new(config, counted_document);
        let document = async || {
            let response = openapi(State(state.clone())).await.unwrap();
            axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap()
        };
        let (first, second) = (document().await, document().await);
        assert_eq!(first, r#"{"info":{"version":"0.0.0"}}"#);
        assert_eq!(DOCUMENTS_MADE.load(Ordering::SeqCst), 1, "a document was made for each request");
        assert_eq!(first.as_ptr(), second.as_ptr(), "the bytes were copied for the second request");
    }

    fn headers(name: axum::http::HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    #[test]
    fn brotli_goes_to_those_who_take_it() {
        for (value, taken) in
            [("gzip, br", true), ("br;q=0.5", true), ("BR", true), ("br;q=0", false), ("gzip", false)]
        {
            assert_eq!(takes_brotli(&headers(ACCEPT_ENCODING, value)), taken, "{value}");
        }
        let asset = WebAsset::find("console.html").unwrap();
        let plain = answer(asset, &HeaderMap::new());
        assert!(plain.headers().get(CONTENT_ENCODING).is_none());
        let packed = answer(asset, &headers(ACCEPT_ENCODING, "br"));
        assert_eq!(packed.headers()[CONTENT_ENCODING], "br");
        assert_eq!(packed.headers()[VARY], "accept-encoding");
    }

    #[test]
    fn w7_pages_are_strict() {
        assert!(POLICY.contains("default-src 'none'") && POLICY.contains("frame-ancestors 'none'"));
        assert!(!POLICY.contains("unsafe"));
        for name in ["console.html", "desktop.html", "docs.html", "open.html"] {
            let response = page(name, &HeaderMap::new()).unwrap();
            assert_eq!(response.headers()[CONTENT_SECURITY_POLICY], POLICY, "{name}");
        }
    }

    #[test]
    fn a_known_version_is_not_sent_again() {
        let asset = WebAsset::find("console.html").unwrap();
        let known = HeaderMap::from_iter([(axum::http::header::IF_NONE_MATCH, tag_value(asset.tag))]);
        assert_eq!(answer(asset, &known).status(), StatusCode::NOT_MODIFIED);
        assert_eq!(answer(asset, &HeaderMap::new()).headers()[CACHE_CONTROL], "no-cache");
        let script = sandyard_web::ASSETS.iter().find(|asset| asset.name.starts_with("console-")).unwrap();
        assert_eq!(answer(script, &HeaderMap::new()).headers()[CACHE_CONTROL], FOR_GOOD);
    }
}
