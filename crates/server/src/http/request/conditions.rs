//! Conditions of a request: the types that a client accepts, and the version that it knows already.

use axum::http::header::{ACCEPT, IF_NONE_MATCH};
use axum::http::{HeaderMap, HeaderValue};

/// True if `If-None-Match` has this entity tag, weakly compared.
pub(in crate::http) fn none_match(headers: &HeaderMap, tag: &str) -> bool {
    let values = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut tags = values.flat_map(|value| value.split(',')).map(str::trim);
    tags.any(|known| known == "*" || known.trim_start_matches("W/") == tag)
}

/// An entity tag as a header value. Our tags are hexadecimal, so the empty tag is never sent.
pub(in crate::http) fn tag_value(tag: &str) -> HeaderValue {
    HeaderValue::from_str(tag).unwrap_or(HeaderValue::from_static("\"\""))
}

/// True if the client asked for server-sent events.
pub(in crate::http) fn wants_events(headers: &HeaderMap) -> bool {
    accepts(headers, "text/event-stream")
}

/// True if the client shows pages. Programs and scripts do not ask for HTML.
pub(in crate::http) fn wants_page(headers: &HeaderMap) -> bool {
    accepts(headers, "text/html")
}

fn accepts(headers: &HeaderMap, media_type: &str) -> bool {
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|kind| kind.trim().starts_with(media_type))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entity_tags_compare_weakly() {
        let headers = HeaderMap::from_iter([(IF_NONE_MATCH, HeaderValue::from_static("\"a\", W/\"b\""))]);
        assert!(
            none_match(&headers, "\"a\"") && none_match(&headers, "\"b\"") && !none_match(&headers, "\"c\"")
        );
    }

    #[test]
    fn the_accept_header_may_name_several_types() {
        let headers =
            HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json, text/html;q=0.9"))]);
        assert!(wants_page(&headers) && !wants_events(&headers) && !wants_page(&HeaderMap::new()));
    }
}
