//! Actions on a desktop.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::bounds;
use super::nearest::nearest;
use super::object::{Object, invalid, missing};
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
        let body = Object::root(body)?;
        body.only(&["actions", "wait_s"])?;
        let listed = body.list("actions")?.ok_or_else(|| missing("actions"))?;
        if listed.is_empty() || listed.len() > bounds::GUI_ACTIONS {
            let problem = format!("must hold 1 to {} actions", bounds::GUI_ACTIONS);
            return Err(invalid("actions", &problem));
        }
        let actions = listed
            .iter()
            .enumerate()
            .map(|(number, value)| GuiAction::read(&format!("actions[{number}]"), value))
            .collect::<Result<_, _>>()?;
        Ok(Self { actions, wait_s: body.whole("wait_s", bounds::WAIT_S)? })
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

    fn read(path: &str, value: &Value) -> Result<Self, ApiError> {
        let object = Object::at(path.to_owned(), value)?;
        let kind = object.needed_text("type")?;
        let Some((_, members)) = MEMBERS.iter().find(|(known, _)| *known == kind) else {
            let known: Vec<&str> = MEMBERS.iter().map(|(name, _)| *name).collect();
            let error = invalid(&format!("{path}.type"), "is no action");
            return Err(match nearest(kind, &known) {
                Some(meant) => error.with_hint(format!("did you mean `{meant}`?")),
                None => error.with_hint(format!("known actions: {}", known.join(", "))),
            });
        };
        let known: Vec<&str> = std::iter::once("type").chain(members.iter().copied()).collect();
        object.only(&known)?;
        let action: Self = serde_json::from_value(value.clone())
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
