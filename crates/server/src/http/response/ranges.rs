//! One byte range of a content, by RFC 9110 section 14. A request for several ranges is answered with the whole content.

use axum::http::HeaderMap;
use axum::http::header::{IF_RANGE, RANGE};

/// The part of a content to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum ContentPart {
    /// The whole content, because no valid range was asked for.
    Whole,
    /// At least one byte.
    Range { start: u64, length: u64 },
    /// A range that the content does not have.
    Outside,
}

/// The part that the headers ask for, of a content with this length and entity tag.
pub(in crate::http) fn requested(headers: &HeaderMap, length: u64, tag: &str) -> ContentPart {
    let mut values = headers.get_all(RANGE).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return ContentPart::Whole };
    let current = headers.get(IF_RANGE).is_none_or(|known| known.as_bytes() == tag.as_bytes());
    match value.to_str() {
        Ok(text) if current => parse(text, length),
        _ => ContentPart::Whole,
    }
}

/// True if the headers ask for a range.
pub(in crate::http) fn is_requested(headers: &HeaderMap) -> bool {
    headers.contains_key(RANGE)
}

fn parse(text: &str, length: u64) -> ContentPart {
    let Some((first, last)) = text.strip_prefix("bytes=").and_then(|range| range.trim().split_once('-'))
    else {
        return ContentPart::Whole;
    };
    match (number(first), number(last)) {
        (Some(None), Some(None)) | (None, _) | (_, None) => ContentPart::Whole,
        (Some(None), Some(Some(0))) => ContentPart::Outside,
        (Some(None), Some(Some(suffix))) => {
            within(length.saturating_sub(suffix), length.saturating_sub(1), length)
        }
        (Some(Some(first)), Some(None)) => within(first, length.saturating_sub(1), length),
        (Some(Some(first)), Some(Some(last))) if first > last => ContentPart::Whole,
        (Some(Some(first)), Some(Some(last))) => within(first, last.min(length.saturating_sub(1)), length),
    }
}

/// Returns `Some(None)` for an empty text and `None` for anything but digits. A number beyond 64 bits lies behind every
/// content, so it becomes the largest one.
fn number(text: &str) -> Option<Option<u64>> {
    if text.is_empty() {
        return Some(None);
    }
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| Some(text.parse().unwrap_or(u64::MAX)))
}

fn within(first: u64, last: u64, length: u64) -> ContentPart {
    if first >= length {
        ContentPart::Outside
    } else {
        ContentPart::Range { start: first, length: last - first + 1 }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn ranges_of_ten_bytes() {
        for (text, part) in [
            ("bytes=0-9", ContentPart::Range { start: 0, length: 10 }),
            ("bytes=4-6", ContentPart::Range { start: 4, length: 3 }),
            ("bytes=4-", ContentPart::Range { start: 4, length: 6 }),
            ("bytes=-3", ContentPart::Range { start: 7, length: 3 }),
            ("bytes=-300", ContentPart::Range { start: 0, length: 10 }),
            ("bytes=9-99999999999999999999999", ContentPart::Range { start: 9, length: 1 }),
            ("bytes=10-", ContentPart::Outside),
            ("bytes=99999999999999999999999-", ContentPart::Outside),
            ("bytes=-0", ContentPart::Outside),
            ("bytes=5-4", ContentPart::Whole),
            ("bytes=0-1,3-4", ContentPart::Whole),
            ("bytes=-", ContentPart::Whole),
            ("bytes=a-b", ContentPart::Whole),
            ("bytes=--5", ContentPart::Whole),
            ("lines=1-2", ContentPart::Whole),
            ("", ContentPart::Whole),
        ] {
            assert_eq!(parse(text, 10), part, "{text}");
        }
        assert_eq!(parse("bytes=0-0", 0), ContentPart::Outside);
        assert_eq!(parse("bytes=-5", 0), ContentPart::Outside);
    }

    #[test]
    fn a_range_of_other_content_is_answered_with_the_whole() {
        let fields =
            [(RANGE, HeaderValue::from_static("bytes=1-")), (IF_RANGE, HeaderValue::from_static("\"old\""))];
        let headers = HeaderMap::from_iter(fields);
        assert_eq!(requested(&headers, 10, "\"new\""), ContentPart::Whole);
        assert_eq!(requested(&headers, 10, "\"old\""), ContentPart::Range { start: 1, length: 9 });
    }
}
