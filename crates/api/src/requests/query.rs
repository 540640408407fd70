//! Query strings: known names only, each at most once, with the same messages as bodies.

use std::ops::RangeInclusive;

use super::refusal::suggest;
use crate::{ApiError, ErrorCode};

/// The pairs of a query string, decoded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Accepts pairs whose names are known and occur once.
    pub fn read(pairs: Vec<(String, String)>, known: &[&str]) -> Result<Self, ApiError> {
        for (index, (name, value)) in pairs.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                return Err(unknown(name, known));
            }
            if pairs[..index].iter().any(|(earlier, _)| earlier == name) {
                return Err(bad(format!("`{name}` is given twice")));
            }
            if value.contains('\0') {
                return Err(bad(format!("`{name}` contains the character NUL")));
            }
        }
        Ok(Self(pairs))
    }

    /// Returns a value that is present and not empty.
    pub fn text(&self, name: &str) -> Option<&str> {
        let (_, value) = self.0.iter().find(|(known, value)| known == name && !value.is_empty())?;
        Some(value)
    }

    /// Returns a whole number within bounds.
    pub fn whole(&self, name: &str, bounds: RangeInclusive<u64>) -> Result<Option<u64>, ApiError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|number| digits && bounds.contains(number));
        let (least, most) = (bounds.start(), bounds.end());
        number.map(Some).ok_or_else(|| bad(format!("`{name}` must be a whole number from {least} to {most}")))
    }

    /// True if a switch is `1` or `true`.
    pub fn switch(&self, name: &str) -> Result<bool, ApiError> {
        match self.text(name) {
            None | Some("0" | "false") => Ok(false),
            Some("1" | "true") => Ok(true),
            Some(_) => Err(bad(format!("`{name}` must be 1 or 0"))),
        }
    }
}

fn unknown(name: &str, known: &[&str]) -> ApiError {
    let shown: String = name.chars().take(64).collect();
    let error = suggest(bad(format!("there is no query parameter `{shown}` here")), name, known);
    match error.hint {
        None if !known.is_empty() => error.with_hint(format!("known parameters: {}", known.join(", "))),
        _ => error,
    }
}

fn bad(message: String) -> ApiError {
    ApiError::new(ErrorCode::BadRequest, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(pairs: &[(&str, &str)]) -> Result<Query, ApiError> {
        let pairs = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Query::read(pairs, &["wait", "fields"])
    }

    #[test]
    fn unknown_and_repeated_names_are_refused() {
        assert_eq!(query(&[("wiat", "3")]).unwrap_err().hint.as_deref(), Some("did you mean `wait`?"));
        assert!(query(&[("wait", "3"), ("wait", "4")]).is_err());
        assert!(query(&[("wait", "a\0")]).is_err());
    }

    #[test]
    fn numbers_keep_their_bounds() {
        assert_eq!(query(&[("wait", "30")]).unwrap().whole("wait", 0..=300), Ok(Some(30)));
        assert_eq!(query(&[]).unwrap().whole("wait", 0..=300), Ok(None));
        for text in ["-1", "+1", "301", "1.5", "x", "99999999999999999999"] {
            assert!(query(&[("wait", text)]).unwrap().whole("wait", 0..=300).is_err(), "{text}");
        }
    }
}
