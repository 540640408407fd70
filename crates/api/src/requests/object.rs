//! A JSON object that remembers where it stands in the body, with checked access to its members.
//!
//! `null` counts as absent everywhere, because clients that fill in every member send it.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use super::nearest::nearest;
use super::privileged::is_privileged;
use crate::{ApiError, ErrorCode};

/// An object within a request.
pub(crate) struct Object<'a> {
    path: String,
    members: &'a Map<String, Value>,
}

impl<'a> Object<'a> {
    /// The whole body.
    pub(crate) fn root(value: &'a Value) -> Result<Self, ApiError> {
        Self::at(String::new(), value)
    }

    /// The object at a path.
    pub(crate) fn at(path: String, value: &'a Value) -> Result<Self, ApiError> {
        match value {
            Value::Object(members) => Ok(Self { path, members }),
            other => Err(wrong_type(&path, "an object", other)),
        }
    }

    /// Refuses members that are not known.
    pub(crate) fn only(&self, known: &[&str]) -> Result<(), ApiError> {
        match self.members.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => Err(self.unknown(name, known)),
        }
    }

    /// The path of a member, for messages.
    pub(crate) fn path_of(&self, name: &str) -> String {
        let name: String = name.chars().take(64).collect();
        if self.path.is_empty() { name } else { format!("{}.{name}", self.path) }
    }

    /// All members in order.
    pub(crate) fn members(&self) -> impl Iterator<Item = (&'a String, &'a Value)> {
        self.members.iter()
    }

    /// A member that is there and not `null`.
    pub(crate) fn get(&self, name: &str) -> Option<&'a Value> {
        self.members.get(name).filter(|value| !value.is_null())
    }

    /// A text member.
    pub(crate) fn text(&self, name: &str) -> Result<Option<&'a str>, ApiError> {
        self.get(name).map(|value| text_at(&self.path_of(name), value)).transpose()
    }

    /// A text member that must be there.
    pub(crate) fn needed_text(&self, name: &str) -> Result<&'a str, ApiError> {
        self.text(name)?.ok_or_else(|| missing(&self.path_of(name)))
    }

    /// A `true` or `false` member.
    pub(crate) fn boolean(&self, name: &str) -> Result<Option<bool>, ApiError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| wrong_type(&self.path_of(name), "true or false", value))
    }

    /// A whole number within bounds.
    pub(crate) fn whole(&self, name: &str, bounds: RangeInclusive<u64>) -> Result<Option<u64>, ApiError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let path = self.path_of(name);
        if !value.is_number() {
            return Err(wrong_type(&path, "a whole number", value));
        }
        match value.as_u64() {
            Some(number) if bounds.contains(&number) => Ok(Some(number)),
            _ => Err(out_of_bounds(&path, "a whole number", bounds.start(), bounds.end())),
        }
    }

    /// A number within bounds.
    pub(crate) fn number(&self, name: &str, bounds: RangeInclusive<f64>) -> Result<Option<f64>, ApiError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let path = self.path_of(name);
        match value.as_f64() {
            None => Err(wrong_type(&path, "a number", value)),
            Some(number) if bounds.contains(&number) => Ok(Some(number)),
            Some(_) => Err(out_of_bounds(&path, "a number", bounds.start(), bounds.end())),
        }
    }

    /// An object member.
    pub(crate) fn object(&self, name: &str) -> Result<Option<Object<'a>>, ApiError> {
        self.get(name).map(|value| Object::at(self.path_of(name), value)).transpose()
    }

    /// A list member.
    pub(crate) fn list(&self, name: &str) -> Result<Option<&'a Vec<Value>>, ApiError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        value.as_array().map(Some).ok_or_else(|| wrong_type(&self.path_of(name), "a list", value))
    }

    fn unknown(&self, name: &str, known: &[&str]) -> ApiError {
        let path = self.path_of(name);
        if is_privileged(name) {
            return ApiError::new(ErrorCode::PrivilegedMember, format!("`{path}` can't be set by a request"))
                .with_hint("sandboxes have no privileges to give; see `isolation`, `limits` and `egress`");
        }
        let error = ApiError::new(ErrorCode::UnknownMember, format!("there is no member `{path}`"));
        match nearest(name, known) {
            Some(meant) => error.with_hint(format!("did you mean `{}`?", self.path_of(meant))),
            None => error.with_hint(format!("known members: {}", known.join(", "))),
        }
    }
}

/// The text at a path; no NUL, which no argument, path or variable of a process can hold.
pub(crate) fn text_at<'a>(path: &str, value: &'a Value) -> Result<&'a str, ApiError> {
    let text = value.as_str().ok_or_else(|| wrong_type(path, "text", value))?;
    if text.contains('\0') {
        return Err(invalid(path, "must not contain the character NUL"));
    }
    Ok(text)
}

/// A member has the wrong JSON type.
pub(crate) fn wrong_type(path: &str, wanted: &str, found: &Value) -> ApiError {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    };
    let place = if path.is_empty() { "the body".to_owned() } else { format!("`{path}`") };
    ApiError::new(ErrorCode::InvalidType, format!("{place} must be {wanted}, not {found}"))
}

/// A needed member is absent.
pub(crate) fn missing(path: &str) -> ApiError {
    ApiError::new(ErrorCode::MissingMember, format!("`{path}` is missing"))
}

/// A member's value is not acceptable; `problem` goes on from its name.
pub(crate) fn invalid(path: &str, problem: &str) -> ApiError {
    ApiError::new(ErrorCode::InvalidValue, format!("`{path}` {problem}"))
}

fn out_of_bounds<T: std::fmt::Display>(path: &str, what: &str, least: T, most: T) -> ApiError {
    invalid(path, &format!("must be {what} from {least} to {most}"))
}
