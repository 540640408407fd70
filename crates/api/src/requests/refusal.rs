//! Error messages for rejected requests, each with its stable code.

use std::fmt;

use serde::de::{Expected, Unexpected};
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

use super::nearest::nearest;
use super::privileged::is_privileged;
use crate::{ApiError, ErrorCode};

/// Longest name that a message repeats.
const SHOWN_CHARS: usize = 64;

/// A rejected member, before its path is known.
#[derive(Debug)]
pub(crate) enum MemberError {
    /// The JSON type is wrong.
    WrongType { wanted: String, found: &'static str },
    /// A fraction, or a negative or huge number, where a whole number is needed.
    NotWhole,
    /// The value is not acceptable; the text continues a sentence that begins with the path.
    Invalid(String),
    /// The object has no such member.
    UnknownMember { name: String, known: &'static [&'static str] },
    /// A required member is absent.
    MissingMember(&'static str),
    /// The text is none of the known names.
    UnknownName { name: String, known: &'static [&'static str] },
}

impl MemberError {
    pub(crate) fn wrong_type(wanted: &str, found: &Value) -> Self {
        let found = match found {
            Value::Null => "null",
            Value::Bool(_) => "true or false",
            Value::Number(_) => "a number",
            Value::String(_) => "text",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        };
        Self::WrongType { wanted: wanted.to_owned(), found }
    }

    pub(crate) fn not_whole() -> Self {
        Self::NotWhole
    }

    pub(crate) fn invalid(problem: impl Into<String>) -> Self {
        Self::Invalid(problem.into())
    }

    /// True if the bounds of the member would explain the error better.
    pub(crate) fn is_number(&self) -> bool {
        matches!(self, Self::NotWhole)
    }

    /// Returns the error for the member at `path`.
    pub(crate) fn at(self, path: &str) -> ApiError {
        match self {
            Self::WrongType { wanted, found } => {
                let place = if path.is_empty() { "the body".to_owned() } else { format!("`{path}`") };
                ApiError::new(ErrorCode::InvalidType, format!("{place} must be {wanted}, not {found}"))
            }
            Self::NotWhole => invalid(path, "must be a whole number"),
            Self::Invalid(problem) => invalid(path, &problem),
            Self::UnknownMember { name, known } => unknown_member(path, &name, known),
            Self::MissingMember(name) => missing(&member_path(path, name)),
            Self::UnknownName { name, known } => match path.rsplit('.').next() {
                Some("kind") => unknown_name(ErrorCode::UnknownKind, "kind", &name, known),
                Some("language") => unknown_name(ErrorCode::UnknownLanguage, "language", &name, known),
                _ => suggest(invalid(path, &format!("must be {}", alternatives(known))), &name, known),
            },
        }
    }
}

impl From<serde_path_to_error::Error<MemberError>> for ApiError {
    fn from(error: serde_path_to_error::Error<MemberError>) -> Self {
        let path = shown_path(error.path());
        error.into_inner().at(&path)
    }
}

impl fmt::Display for MemberError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self:?}")
    }
}

impl std::error::Error for MemberError {}

impl serde::de::Error for MemberError {
    fn custom<T: fmt::Display>(problem: T) -> Self {
        Self::Invalid(problem.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, wanted: &dyn Expected) -> Self {
        let found = match found {
            Unexpected::Bool(_) => "true or false",
            Unexpected::Unsigned(_) | Unexpected::Signed(_) | Unexpected::Float(_) => "a number",
            Unexpected::Seq => "a list",
            Unexpected::Map => "an object",
            Unexpected::Unit | Unexpected::Option => "null",
            _ => "text",
        };
        Self::WrongType { wanted: wanted.to_string(), found }
    }

    fn unknown_variant(name: &str, known: &'static [&'static str]) -> Self {
        Self::UnknownName { name: name.to_owned(), known }
    }

    fn unknown_field(name: &str, known: &'static [&'static str]) -> Self {
        Self::UnknownMember { name: name.to_owned(), known }
    }

    fn missing_field(name: &'static str) -> Self {
        Self::MissingMember(name)
    }
}

/// Returns the error for an unacceptable value; `problem` continues the sentence that begins with its path.
pub(crate) fn invalid(path: &str, problem: &str) -> ApiError {
    ApiError::new(ErrorCode::InvalidValue, format!("`{path}` {problem}"))
}

/// A required member is absent.
pub(crate) fn missing(path: &str) -> ApiError {
    ApiError::new(ErrorCode::MissingMember, format!("`{path}` is missing"))
}

/// Returns the error for an unknown name, with the nearest known name as a hint.
pub(crate) fn unknown_name(code: ErrorCode, noun: &str, name: &str, known: &[&str]) -> ApiError {
    let error = suggest(ApiError::new(code, format!("there is no {noun} `{}`", shown(name))), name, known);
    match error.hint {
        Some(_) => error,
        None => error.with_hint(format!("known {noun}s: {}", known.join(", "))),
    }
}

/// Adds the nearest known name as a hint, if one is near.
pub(crate) fn suggest(error: ApiError, mistaken: &str, known: &[&str]) -> ApiError {
    match nearest(mistaken, known.iter().copied()) {
        Some(meant) => error.with_hint(format!("did you mean `{meant}`?")),
        None => error,
    }
}

/// Returns the error for an unknown member of the object at `parent`.
pub(crate) fn unknown_member(parent: &str, name: &str, known: &[&str]) -> ApiError {
    let path = member_path(parent, name);
    if is_privileged(name) {
        return ApiError::new(ErrorCode::PrivilegedMember, format!("`{path}` can't be set by a request"))
            .with_hint("sandboxes have no privileges to give; see `isolation`, `limits` and `egress`");
    }
    let error = ApiError::new(ErrorCode::UnknownMember, format!("there is no member `{path}`"));
    match nearest(name, known.iter().copied()) {
        Some(meant) => error.with_hint(format!("did you mean `{}`?", member_path(parent, meant))),
        None => error.with_hint(format!("known members: {}", known.join(", "))),
    }
}

/// Returns the path of a member for messages.
pub(crate) fn member_path(parent: &str, name: &str) -> String {
    let name = shown(name);
    if parent.is_empty() { name } else { format!("{parent}.{name}") }
}

fn shown_path(path: &Path) -> String {
    path.iter().fold(String::new(), |parent, segment| match segment {
        Segment::Map { key } => member_path(&parent, key),
        Segment::Seq { index } => format!("{parent}[{index}]"),
        Segment::Enum { .. } | Segment::Unknown => parent,
    })
}

fn shown(name: &str) -> String {
    name.chars().take(SHOWN_CHARS).collect()
}

/// Returns words as `a`, `b` or `c`.
fn alternatives(known: &[&str]) -> String {
    let quoted: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}
