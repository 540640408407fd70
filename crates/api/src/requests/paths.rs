//! Rules for paths in requests: relative, normal, bounded. The guest judges symbolic links.

use super::bounds::{NAME_BYTES, PATH_BYTES};
use crate::{ApiError, ErrorCode};

/// Checks a decoded path within the workspace and returns it without a trailing slash. Empty is the workspace itself.
pub fn workspace_path(path: &str) -> Result<&str, ApiError> {
    if path.len() > PATH_BYTES {
        return Err(refused(&format!("the path is longer than {PATH_BYTES} bytes")));
    }
    if path.contains('\0') {
        return Err(refused("the path contains the character NUL"));
    }
    if path.starts_with('/') {
        return Err(refused("the path is absolute").with_hint("paths are relative to the workspace"));
    }
    let trimmed = path.strip_suffix('/').unwrap_or(path);
    if trimmed.is_empty() {
        return Ok(trimmed);
    }
    for name in trimmed.split('/') {
        match name {
            ".." => return Err(refused("the path contains `..`")),
            "." => return Err(refused("the path contains `.` as a name")),
            "" => return Err(refused("the path contains an empty name")),
            long if long.len() > NAME_BYTES => {
                return Err(refused(&format!("a name in the path is longer than {NAME_BYTES} bytes")));
            }
            _ => {}
        }
    }
    Ok(trimmed)
}

/// Decodes the path of a raw URI once and checks it. `raw` is the part after `/files/`.
///
/// Also rejects a path that would leave the workspace if it were decoded twice: no real file has such a name.
pub fn workspace_path_of_uri(raw: &str) -> Result<String, ApiError> {
    let path = String::from_utf8(percent_decode(raw)?).map_err(|_| refused("the path is not UTF-8"))?;
    let checked = workspace_path(&path)?.to_owned();
    // Some proxies and libraries decode once more, and the path must not climb there either.
    let again = percent_decode(&checked).unwrap_or_default();
    let climbs = again.split(|byte| *byte == b'/').any(|name| name == b"..");
    if climbs || again.contains(&0) {
        return Err(refused("the path is encoded twice"));
    }
    Ok(checked)
}

fn percent_decode(text: &str) -> Result<Vec<u8>, ApiError> {
    let malformed = || refused("the path has a `%` that is not followed by two hexadecimal digits");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (high, low) = (rest.next().and_then(hex_digit), rest.next().and_then(hex_digit));
        let (Some(high), Some(low)) = (high, low) else { return Err(malformed()) };
        bytes.push(high << 4 | low);
    }
    Ok(bytes)
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

fn refused(message: &str) -> ApiError {
    ApiError::new(ErrorCode::InvalidPath, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f1_paths_that_leave_or_confuse_are_refused() {
        let long_name = "n".repeat(5000);
        let deep = "d/".repeat(3000);
        for raw in [
            "..",
            "../x",
            "a/../b",
            "a/..",
            "%2e%2e/etc/passwd",
            "..%2fetc%2fpasswd",
            "%2e%2e%2fx",
            ".%2e/x",
            "/etc/passwd",
            "%2fetc/passwd",
            "a//b",
            "./a",
            "a/.",
            "a%00b",
            "%00",
            "a%2f%2e%2e%2fb",
            "%252e%252e/x",
            "%252e%252e%252fx",
            "..%252fx",
            "a%2500",
            "%c0%ae%c0%ae/x",
            "%c0%af",
            "%e0%80%af",
            "%ff",
            "%",
            "%2",
            "%zz",
            "%2g",
            &long_name,
            &deep,
        ] {
            let error = workspace_path_of_uri(raw).expect_err(raw);
            assert_eq!(error.code, ErrorCode::InvalidPath, "{raw}");
        }
    }

    #[test]
    fn ordinary_paths_pass() {
        for (raw, path) in [
            ("", ""),
            ("a", "a"),
            ("a/b.txt", "a/b.txt"),
            ("src/", "src"),
            ("a%20b", "a b"),
            ("a%2Fb", "a/b"),
            ("%C3%BC.txt", "ü.txt"),
            ("..a/b..", "..a/b.."),
            ("...", "..."),
            ("a\\..\\b", "a\\..\\b"),
            ("100%25", "100%"),
            ("a;b", "a;b"),
        ] {
            assert_eq!(workspace_path_of_uri(raw).as_deref(), Ok(path), "{raw}");
        }
    }
}
