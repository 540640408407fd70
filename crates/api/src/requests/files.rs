//! `PATCH /jobs/{id}/files/{path}`, and the path rules shared by all routes on files.

use serde_json::Value;

use super::bounds;
use super::object::{Object, invalid, missing, text_at};
pub use super::paths::{workspace_path, workspace_path_of_uri};
use crate::{ApiError, EditBody, ErrorCode};

/// A change to one file or folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileChange {
    /// To another path in the workspace.
    Move(String),
    /// Replacements in place, all or none.
    Edits(Vec<EditBody>),
}

impl FileChange {
    /// Reads and checks a body.
    pub fn from_json(body: &Value) -> Result<Self, ApiError> {
        let body = Object::root(body)?;
        body.only(&["move", "edits"])?;
        match (body.text("move")?, body.list("edits")?) {
            (Some(target), None) => target_path(target).map(Self::Move),
            (None, Some(edits)) => read_edits(edits).map(Self::Edits),
            (Some(_), Some(_)) => {
                Err(ApiError::new(ErrorCode::ConflictingMembers, "give either `move` or `edits`, not both"))
            }
            (None, None) => Err(missing("edits").with_hint("give `move` or `edits`")),
        }
    }
}

fn target_path(target: &str) -> Result<String, ApiError> {
    match workspace_path(target) {
        Ok("") => Err(invalid("move", "does not name a file")),
        Ok(path) => Ok(path.to_owned()),
        Err(error) => Err(ApiError::new(ErrorCode::InvalidValue, format!("`move`: {}", error.message))),
    }
}

fn read_edits(edits: &[Value]) -> Result<Vec<EditBody>, ApiError> {
    if edits.is_empty() || edits.len() > bounds::EDITS {
        return Err(invalid("edits", &format!("must be 1 to {}", bounds::EDITS)));
    }
    edits.iter().enumerate().map(|(index, edit)| read_edit(&format!("edits[{index}]"), edit)).collect()
}

fn read_edit(place: &str, edit: &Value) -> Result<EditBody, ApiError> {
    let edit = Object::at(place.to_owned(), edit)?;
    edit.only(&["old", "new"])?;
    let old = edit.needed_text("old")?;
    if old.is_empty() {
        return Err(invalid(&edit.path_of("old"), "is empty, which matches everywhere"));
    }
    let new = edit.get("new").ok_or_else(|| missing(&edit.path_of("new")))?;
    let new = text_at(&edit.path_of("new"), new)?;
    Ok(EditBody { old: old.to_owned(), new: new.to_owned() })
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
