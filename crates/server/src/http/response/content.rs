//! Downloads: headers that keep browsers from running the bytes as a page, and streams with ranges.

use std::pin::Pin;

use axum::body::Body;
use axum::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG,
};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use futures_util::Stream;

use crate::http::response::ranges::ContentPart;

/// A stream of bytes from a file or a guest.
pub(in crate::http) type ByteStream = Pin<Box<dyn Stream<Item = Result<Bytes, std::io::Error>> + Send>>;

/// The headers of some content.
#[derive(Debug)]
pub(in crate::http) struct ContentHead<'a> {
    /// Media type for `Content-Type`.
    pub(in crate::http) kind: &'static str,
    /// The name it is saved under.
    pub(in crate::http) file_name: &'a str,
    /// Its entity tag, with quotes.
    pub(in crate::http) tag: &'a str,
    /// Length of the whole content in bytes, also if only a part is sent.
    pub(in crate::http) length: u64,
    /// The part of the content that is sent.
    pub(in crate::http) part: ContentPart,
}

impl ContentHead<'_> {
    /// The answer with these bytes; their number must match `part`.
    pub(in crate::http) fn answer(&self, body: Body) -> Response {
        let mut response = Response::new(body);
        let mut put = |name, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                response.headers_mut().insert(name, value);
            }
        };
        put(CONTENT_TYPE, self.kind);
        put(CONTENT_DISPOSITION, &attachment(self.file_name));
        put(ETAG, self.tag);
        put(ACCEPT_RANGES, "bytes");
        put(CACHE_CONTROL, "no-cache");
        match self.part {
            ContentPart::Range { start, length } => {
                put(CONTENT_LENGTH, &length.to_string());
                put(CONTENT_RANGE, &format!("bytes {start}-{}/{}", start + length - 1, self.length));
                *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            }
            ContentPart::Whole | ContentPart::Outside => put(CONTENT_LENGTH, &self.length.to_string()),
        }
        response
    }
}

/// `Content-Disposition` for any name, by RFC 6266: a plain copy for old clients and the exact name percent-encoded.
pub(in crate::http) fn attachment(file_name: &str) -> String {
    let plain: String = file_name
        .chars()
        .map(|letter| match letter {
            '"' | '\\' | '%' | '/' => '_',
            letter if letter == ' ' || letter.is_ascii_graphic() => letter,
            _ => '_',
        })
        .collect();
    let mut exact = String::with_capacity(file_name.len());
    for byte in file_name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            exact.push(char::from(byte));
        } else {
            exact.push_str(&format!("%{byte:02X}"));
        }
    }
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{exact}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f13_no_name_breaks_out_of_the_header() {
        let long = "ü".repeat(127);
        for name in [
            "a.txt",
            "a\r\nSet-Cookie: x=1",
            "a\"; filename=\"b",
            "\u{202e}gpj.exe",
            "日本.txt",
            "a\\b%20c",
            &long,
        ] {
            let value = attachment(name);
            assert!(value.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' '), "{value}");
            assert_eq!(value.matches('"').count(), 2, "{value}");
            assert!(HeaderValue::from_str(&value).is_ok());
        }
        assert_eq!(attachment("a b.txt"), "attachment; filename=\"a b.txt\"; filename*=UTF-8''a%20b.txt");
    }

    #[test]
    fn f14_a_part_says_which() {
        let part = ContentPart::Range { start: 4, length: 3 };
        let head = ContentHead { kind: "application/zip", file_name: "x", tag: "\"t\"", length: 10, part };
        let response = head.answer(Body::empty());
        assert_eq!(response.status(), 206);
        assert_eq!(response.headers()[CONTENT_RANGE], "bytes 4-6/10");
        assert_eq!(response.headers()[CONTENT_LENGTH], "3");
    }
}
