//! Actions on a desktop.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::bounds;
use super::reader::{NumberBounds, RequestBody, read};
use super::refusal::{MemberError, invalid, missing, suggest, unknown_member};
use crate::{ApiError, ErrorCode};

/// Body of `POST /jobs/{id}/gui`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct GuiRequest {
    /// Done in order, up to the first that fails.
    pub actions: Vec<GuiAction>,
    /// How long a person who controls the desktop is waited for; refused at once if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_s: Option<u64>,
}

/// One action. Coordinates are pixels of the screen, from its upper left corner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum GuiAction {
    /// Presses and releases a button.
    Click(GuiClick),
    /// The same twice, fast.
    DoubleClick(GuiClick),
    /// Moves the pointer.
    Move {
        /// To the right.
        x: i32,
        /// Down.
        y: i32,
    },
    /// Moves with a button held.
    Drag {
        /// Where it begins.
        x: i32,
        /// Where it begins.
        y: i32,
        /// Where it ends.
        to_x: i32,
        /// Where it ends.
        to_y: i32,
        /// 1 to 5; the left one if not given.
        button: Option<u8>,
    },
    /// Turns the wheel, a notch for each unit.
    Scroll {
        /// Where; at the pointer if not given.
        x: Option<i32>,
        /// Where; at the pointer if not given.
        y: Option<i32>,
        /// To the right if positive.
        dx: Option<i32>,
        /// Down if positive.
        dy: Option<i32>,
    },
    /// Types text, any of Unicode.
    Type {
        /// What.
        text: String,
    },
    /// Presses keys together (`ctrl+shift+t`), several chords one after the other if separated by spaces.
    Key {
        /// Which.
        keys: String,
    },
    /// Waits.
    Wait {
        /// How long, up to 300000.
        ms: u64,
    },
    /// Waits until the screen has not changed for a while.
    WaitForStable {
        /// How long it must stay the same; 500 if not given.
        quiet_ms: Option<u64>,
        /// After how long it is given up; 10000 if not given.
        timeout_ms: Option<u64>,
    },
    /// A picture of the screen or of one window.
    Screenshot {
        /// The window, as `windows` names it.
        window: Option<u32>,
    },
    /// A script for xdotool, verbatim.
    Xdotool {
        /// The script.
        script: String,
    },
    /// Lists the windows.
    Windows {},
}

/// Where and how to click.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GuiClick {
    /// To the right; at the pointer if not given.
    pub x: Option<i32>,
    /// Down; at the pointer if not given.
    pub y: Option<i32>,
    /// 1 to 5; the left one if not given.
    pub button: Option<u8>,
    /// Keys held meanwhile, as `ctrl+shift`.
    pub hold: Option<String>,
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
        let actions = actions.map(|(index, members)| GuiAction::read(&format!("actions[{index}]"), members));
        Ok(Self { actions: actions.collect::<Result<_, _>>()?, wait_s: body.wait_s })
    }
}

/// A body whose actions are still JSON, because serde does not reject unknown members of a tagged enum.
#[derive(Deserialize)]
struct GuiBody {
    actions: Vec<Map<String, Value>>,
    wait_s: Option<u64>,
}

impl RequestBody for GuiBody {
    const NUMBERS: &'static [(&'static str, NumberBounds)] =
        &[("wait_s", NumberBounds::Whole(bounds::WAIT_S))];

    fn checked(self) -> Result<Self, ApiError> {
        if self.actions.is_empty() || self.actions.len() > bounds::GUI_ACTIONS {
            return Err(invalid("actions", &format!("must hold 1 to {} actions", bounds::GUI_ACTIONS)));
        }
        Ok(self)
    }
}

impl GuiAction {
    /// The name in `type`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Click(_) => "click",
            Self::DoubleClick(_) => "double_click",
            Self::Move { .. } => "move",
            Self::Drag { .. } => "drag",
            Self::Scroll { .. } => "scroll",
            Self::Type { .. } => "type",
            Self::Key { .. } => "key",
            Self::Wait { .. } => "wait",
            Self::WaitForStable { .. } => "wait_for_stable",
            Self::Screenshot { .. } => "screenshot",
            Self::Xdotool { .. } => "xdotool",
            Self::Windows {} => "windows",
        }
    }

    fn read(path: &str, mut members: Map<String, Value>) -> Result<Self, ApiError> {
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
        let action: Self = serde_json::from_value(Value::Object(members))
            .map_err(|error| ApiError::new(ErrorCode::InvalidValue, format!("`{path}`: {error}")))?;
        action.check(path)?;
        Ok(action)
    }

    fn check(&self, path: &str) -> Result<(), ApiError> {
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
        match self {
            Self::Type { text } => long("text", text),
            Self::Key { keys } => long("keys", keys),
            Self::Xdotool { script } => long("script", script),
            Self::Wait { ms } => slow("ms", *ms),
            Self::WaitForStable { quiet_ms, timeout_ms } => {
                slow("quiet_ms", quiet_ms.unwrap_or(0))?;
                slow("timeout_ms", timeout_ms.unwrap_or(0))
            }
            _ => Ok(()),
        }
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
