//! The request target for a port: the path and query exactly as they came, or nothing if they are ambiguous.

use axum::http::Uri;

/// The request target to send to a port, without `prefix`; `None` if it is ambiguous. Browsers resolve dot segments and never
/// send control characters, so nothing that a person can click is refused.
pub(super) fn target(uri: &Uri, prefix: &str) -> Option<String> {
    // An absolute target names a second host beside `Host`, and programs disagree about which one counts.
    if uri.scheme().is_some() || uri.authority().is_some() {
        return None;
    }
    let path = uri.path().strip_prefix(prefix)?;
    let plain = path.starts_with('/') && !path.starts_with("//") && !path.contains('\\');
    if !plain || !is_plain(path) {
        return None;
    }
    Some(match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    })
}

/// True if there is no escaped control character, and no dot segment in any spelling.
fn is_plain(path: &str) -> bool {
    let Some(decoded) = decode(path) else { return false };
    let controls = decoded.iter().any(|byte| *byte < b' ' || *byte == 0x7f);
    let mut segments = decoded.split(|byte| matches!(byte, b'/' | b'\\'));
    !controls && !segments.any(|segment| matches!(segment, b"." | b".."))
}

/// Decodes the escapes once; `None` for a malformed escape.
fn decode(path: &str) -> Option<Vec<u8>> {
    let mut bytes = path.bytes();
    let mut decoded = Vec::with_capacity(path.len());
    while let Some(byte) = bytes.next() {
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        decoded.push(if byte == b'%' {
            let (high, low) = (digit(bytes.next())?, digit(bytes.next())?);
            u8::try_from(high * 16 + low).ok()?
        } else {
            byte
        });
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(path: &str, prefix: &str) -> Option<String> {
        target(&path.parse().unwrap(), prefix)
    }

    #[test]
    fn w13_paths_are_passed_on_as_they_came() {
        for path in [
            "/",
            "/a//b",
            "/a;b=c",
            "/a%20b%C3%BC",
            "/@fs/x%2Fy",
            "/%252e%252e/x",
            "/a?b=../c&d=%00",
            "/.hidden/..x/a..",
            "/a?",
            "/A/a",
        ] {
            assert_eq!(sent(path, "").as_deref(), Some(path));
            assert_eq!(sent(&format!("/p/1{path}"), "/p/1").as_deref(), Some(path));
        }
    }

    #[test]
    fn w13_ambiguous_paths_are_refused() {
        for path in [
            "/..",
            "/a/../b",
            "/a/./b",
            "/a/%2e%2e/b",
            "/a/.%2E/b",
            "/a/..%2fb",
            "/a%2f..%2fb",
            "/a/..%5cb",
            "/a/%2e",
            "//evil.example/x",
            "/a%00",
            "/a%0d%0aX:%20y",
            "/a%7f",
            "/a%",
            "/a%2",
            "/a%zz",
            "/a%+1",
        ] {
            assert_eq!(sent(path, ""), None, "{path}");
        }
        assert_eq!(sent("http://evil.example/x", ""), None);
        assert_eq!(sent("/p/1", "/p/1"), None, "no slash after the prefix");
        assert_eq!(sent("/p/12/", "/p/1"), None, "another port");
    }
}
