//! Actions on a desktop.

use sandyard_protocol::GuiAction;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::bounds;
use super::reader::{JsonRequest, NumberBounds, read};
use super::refusal::{MemberError, invalid, missing, suggest, unknown_member};
use crate::{ApiError, ErrorCode};

/// Body of `POST /jobs/{id}/gui`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct GuiRequest {
    /// Actions, performed in order until one fails.
    pub actions: Vec<GuiAction>,
    /// How long to wait for a person who controls the desktop; rejected at once if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_s: Option<u64>,
}

/// Every action with its members.
const MEMBERS: [(&str, &[&str]); 12] = [
    ("click", &["x", "y", "button", "hold"]),
    ("double_click", &["x", "y", "button", "hold"]),
    ("move", &["x", "y"]),
    ("drag", &["x", "y", "to_x", "to_y", "button"]),
    ("scroll", &["x", "y", "dx", "dy"]),
    ("type", &["text"]),
    ("key", &["keys"]),
    ("wait", &["ms"]),
    ("wait_for_stable", &["quiet_ms", "timeout_ms"]),
    ("screenshot", &["window"]),
    ("xdotool", &["script"]),
    ("windows", &[]),
];

impl GuiRequest {
    /// Reads and checks a body.
    pub fn from_json(body: &Value) -> Result<Self, ApiError> {
        let body: GuiBody = read(body)?;
        let actions = body.actions.into_iter().enumerate();
        let actions = actions.map(|(index, members)| read_action(&format!("actions[{index}]"), members));
        Ok(Self { actions: actions.collect::<Result<_, _>>()?, wait_s: body.wait_s })
    }
}

/// A body whose actions are still JSON, because serde does not reject unknown members of a tagged enum.
#[derive(Deserialize)]
struct GuiBody {
    actions: Vec<Map<String, Value>>,
    wait_s: Option<u64>,
}

impl JsonRequest for GuiBody {
    const NUMBERS: &'static [(&'static str, NumberBounds)] =
        &[("wait_s", NumberBounds::Whole(bounds::WAIT_S))];

    fn checked(self) -> Result<Self, ApiError> {
        if self.actions.is_empty() || self.actions.len() > bounds::GUI_ACTIONS {
            return Err(invalid("actions", &format!("must hold 1 to {} actions", bounds::GUI_ACTIONS)));
        }
        Ok(self)
    }
}

fn read_action(path: &str, mut members: Map<String, Value>) -> Result<GuiAction, ApiError> {
    members.retain(|_, value| !value.is_null());
    let place = format!("{path}.type");
    let kind = members.get("type").ok_or_else(|| missing(&place))?;
    let kind = kind.as_str().ok_or_else(|| MemberError::wrong_type("text", kind).at(&place))?;
    let Some((_, known)) = MEMBERS.iter().find(|(name, _)| *name == kind) else {
        let known = MEMBERS.map(|(name, _)| name);
        let error = suggest(invalid(&place, "is no action"), kind, &known);
        return Err(match error.hint {
            Some(_) => error,
            None => error.with_hint(format!("known actions: {}", known.join(", "))),
        });
    };
    let known = [&["type"], *known].concat();
    if let Some(name) = members.keys().find(|name| !known.contains(&name.as_str())) {
        return Err(unknown_member(path, name, &known));
    }
    let action: GuiAction = serde_json::from_value(Value::Object(members))
        .map_err(|error| ApiError::new(ErrorCode::InvalidValue, format!("`{path}`: {error}")))?;
    check_action(path, &action)?;
    Ok(action)
}

fn check_action(path: &str, action: &GuiAction) -> Result<(), ApiError> {
    let long = |name: &str, text: &str| {
        if text.is_empty() || text.len() > bounds::GUI_TEXT_BYTES || text.contains('\0') {
            let problem = format!("must have 1 to {} bytes and no NUL", bounds::GUI_TEXT_BYTES);
            return Err(invalid(&format!("{path}.{name}"), &problem));
        }
        Ok(())
    };
    let slow = |name: &str, ms: u64| {
        if ms > bounds::GUI_WAIT_MS {
            return Err(invalid(
                &format!("{path}.{name}"),
                &format!("must be at most {}", bounds::GUI_WAIT_MS),
            ));
        }
        Ok(())
    };
    match action {
        GuiAction::Type { text } => long("text", text),
        GuiAction::Key { keys } => long("keys", keys),
        GuiAction::Xdotool { script } => long("script", script),
        GuiAction::Wait { ms } => slow("ms", *ms),
        GuiAction::WaitForStable { quiet_ms, timeout_ms } => {
            slow("quiet_ms", *quiet_ms)?;
            slow("timeout_ms", *timeout_ms)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn actions_are_checked_and_named_by_their_place() {
        let good = json!({"actions": [{"type": "click", "x": 1, "y": 2}, {"type": "windows"}], "wait_s": 3});
        let request = GuiRequest::from_json(&good).unwrap();
        assert_eq!((request.actions.len(), request.wait_s), (2, Some(3)));
        for (body, code) in [
            (json!({}), ErrorCode::MissingMember),
            (json!({"actions": []}), ErrorCode::InvalidValue),
            (json!({"actions": [{"type": "clik"}]}), ErrorCode::InvalidValue),
            (json!({"actions": [{"type": "move", "x": 1}]}), ErrorCode::InvalidValue),
            (json!({"actions": [{"type": "move", "x": 1, "y": 2, "z": 3}]}), ErrorCode::UnknownMember),
            (json!({"actions": [{"type": "type", "text": ""}]}), ErrorCode::InvalidValue),
            (json!({"actions": [{"type": "wait", "ms": 9_999_999}]}), ErrorCode::InvalidValue),
            (json!({"actions": [{"type": "move", "x": "1", "y": 2}]}), ErrorCode::InvalidValue),
            (json!({"actions": vec![json!({"type": "windows"}); 300]}), ErrorCode::InvalidValue),
        ] {
            assert_eq!(GuiRequest::from_json(&body).unwrap_err().code, code, "{body}");
        }
        let error = GuiRequest::from_json(&json!({"actions": [{"type": "clik"}]})).unwrap_err();
        assert_eq!(error.hint.as_deref(), Some("did you mean `click`?"));
    }
}
