//! `PATCH /jobs/{id}/files/{path}`, and the path rules shared by all routes on files.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::bounds;
pub use super::paths::{workspace_path, workspace_path_of_uri};
use super::reader::{JsonRequest, read};
use super::refusal::{invalid, missing};
use crate::{ApiError, ErrorCode};

/// Body of `PATCH /jobs/{id}/files/{path}`: exactly one of its two members.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FileChangeBody {
    /// New path of the file or folder.
    #[serde(rename = "move", skip_serializing_if = "Option::is_none")]
    pub move_to: Option<String>,
    /// Replacements in the file, applied in order, all or none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub edits: Option<Vec<EditBody>>,
}

/// One replacement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EditBody {
    /// Text to replace; must occur exactly once.
    pub old: String,
    /// The new text.
    pub new: String,
}

/// A change to one file or folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileChange {
    /// Moves to another path in the workspace.
    Move(String),
    /// Replaces text in place, all or none.
    Edits(Vec<EditBody>),
}

impl FileChange {
    /// Reads and checks a body.
    pub fn from_json(body: &Value) -> Result<Self, ApiError> {
        let FileChangeBody { move_to, edits } = read(body)?;
        match (move_to, edits) {
            (Some(target), None) => checked_target(&target).map(Self::Move),
            (None, Some(edits)) => checked_edits(edits).map(Self::Edits),
            (Some(_), Some(_)) => {
                Err(ApiError::new(ErrorCode::ConflictingMembers, "give either `move` or `edits`, not both"))
            }
            (None, None) => Err(missing("edits").with_hint("give `move` or `edits`")),
        }
    }
}

impl JsonRequest for FileChangeBody {}

fn checked_target(target: &str) -> Result<String, ApiError> {
    match workspace_path(target) {
        Ok("") => Err(invalid("move", "does not name a file")),
        Ok(path) => Ok(path.to_owned()),
        Err(error) => Err(ApiError::new(ErrorCode::InvalidValue, format!("`move`: {}", error.message))),
    }
}

fn checked_edits(edits: Vec<EditBody>) -> Result<Vec<EditBody>, ApiError> {
    if edits.is_empty() || edits.len() > bounds::EDITS {
        return Err(invalid("edits", &format!("must be 1 to {}", bounds::EDITS)));
    }
    if let Some(index) = edits.iter().position(|edit| edit.old.is_empty()) {
        return Err(invalid(&format!("edits[{index}].old"), "is empty, which matches everywhere"));
    }
    Ok(edits)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changes_are_one_of_two() {
        let moved = FileChange::from_json(&json!({"move": "a/b"})).unwrap();
        assert_eq!(moved, FileChange::Move("a/b".into()));
        let edited = FileChange::from_json(&json!({"edits": [{"old": "x", "new": ""}]})).unwrap();
        assert_eq!(edited, FileChange::Edits(vec![EditBody { old: "x".into(), new: String::new() }]));
        for (body, code) in [
            (json!({}), ErrorCode::MissingMember),
            (json!({"move": "a", "edits": []}), ErrorCode::ConflictingMembers),
            (json!({"move": "../a"}), ErrorCode::InvalidValue),
            (json!({"move": "/etc/passwd"}), ErrorCode::InvalidValue),
            (json!({"move": ""}), ErrorCode::InvalidValue),
            (json!({"edits": []}), ErrorCode::InvalidValue),
            (json!({"edits": [{"old": "", "new": "x"}]}), ErrorCode::InvalidValue),
            (json!({"edits": [{"old": "a"}]}), ErrorCode::MissingMember),
            (json!({"edits": [{"old": "a", "nwe": "b"}]}), ErrorCode::UnknownMember),
            (json!({"edits": {"old": "a", "new": "b"}}), ErrorCode::InvalidType),
        ] {
            assert_eq!(FileChange::from_json(&body).unwrap_err().code, code, "{body}");
        }
    }
}
